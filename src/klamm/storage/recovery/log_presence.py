"""Checks whether all records of a log that were known to be on the disk are there, without reading them.

The rule: the log ends at or after its recovery point, begins at or before its noted log start offset, and no segment
ends before the next one begins. An empty last segment is normal after a roll. Gaps that are not damage are noted
(`gaps.py`).

A crash must never look like damage. Therefore the recovery point is lowered on the disk before a log is truncated, and
the log file of a deleted segment stays, under another name, until the new log start offset is on the disk.

Every check raises Damage.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from itertools import pairwise

from klamm.protocol.types import Offset
from klamm.storage.recovery.index_recovery import rebuild_or_fail
from klamm.storage.recovery.loaded_log import LoadRequest
from klamm.storage.segment.batch_scan import BadBatch
from klamm.storage.segment.damage import LOSS_ADVICE, Damage, damage_in
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.segment import Segment
from klamm.storage.segment.segment_search import find_last_batch

__all__ = ["check_beginning", "check_end", "check_no_gaps", "end_of", "gap_after"]

_logger = logging.getLogger(__name__)


def check_beginning(request: LoadRequest, segments: Sequence[Segment]) -> None:
    """Checks that a log with records has segments, and that the first segment is not missing."""
    noted = request.noted_log_start_offset
    if not segments:
        if request.recovery_point > request.log_start_offset:
            raise Damage(
                f"{request.directory} has no segment, but records up to offset {request.recovery_point} were on the "
                f"disk. {LOSS_ADVICE}"
            )
    elif noted is not None and segments[0].base_offset > noted:
        raise Damage(
            f"{request.directory} begins with {segments[0].path.name}, but the log begins at offset {noted}: the "
            f"segments with the offsets {noted} to {segments[0].base_offset - 1} are gone. {LOSS_ADVICE}"
        )


def check_no_gaps(request: LoadRequest, segments: Sequence[Segment], gaps: Container[int]) -> None:
    """Checks that each segment ends where the next one begins, except for gaps below the log start offset.

    Raises OSError as well.
    """
    for segment, following in pairwise(segments):
        base_offset = following.base_offset
        if base_offset <= request.log_start_offset or base_offset in gaps:
            continue
        end = end_of(segment)
        if end < base_offset:
            raise gap_after(segment, end, base_offset)


def gap_after(segment: Segment, end: Offset, base_offset: Offset) -> Damage:
    """Creates the error for a segment that ends before the next one begins."""
    return Damage(
        f"{segment.path} ends at offset {end}, and the next segment begins at offset {base_offset}: the records in "
        f"between are gone. {LOSS_ADVICE}"
    )


def check_end(request: LoadRequest, segments: Sequence[Segment], log_end_offset: Offset) -> None:
    """Checks that the log does not end before its recovery point, unless everything below that point is deleted."""
    if segments and log_end_offset < request.recovery_point > request.log_start_offset:
        raise Damage(
            f"{segments[-1].path} ends at offset {log_end_offset}, but records up to offset {request.recovery_point} "
            f"were on the disk. {LOSS_ADVICE}"
        )


def end_of(segment: Segment) -> Offset:
    """Returns the offset after the last batch. Rebuilds an index that misleads the search. Raises OSError as well."""
    if not segment.size_bytes:
        return segment.base_offset
    try:
        try:
            last = find_last_batch(segment)
        except CorruptIndex as error:
            _logger.warning("%s; the index is rebuilt", error)
            rebuild_or_fail(segment)
            last = find_last_batch(segment)
    except BadBatch as error:
        raise damage_in(segment, error) from error
    finally:
        segment.close()
    return Offset(last.last_offset + 1) if last is not None else segment.base_offset

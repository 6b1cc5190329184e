"""Rebuilds the indexes of a segment from its log. They are synced, because a recovery point may depend on them."""

from __future__ import annotations

import logging
import os

from klamm.storage.segment.batch_scan import BadBatch, check_batches
from klamm.storage.segment.damage import damage_in
from klamm.storage.segment.segment import Segment

__all__ = ["rebuild_for_reading", "rebuild_indexes", "rebuild_or_fail"]

_logger = logging.getLogger(__name__)


def rebuild_indexes(segment: Segment) -> None:
    """Rebuilds both indexes from the log and syncs them. The CRCs of the batches are checked.

    Raises BadBatch, or OSError: the files are then unchanged, and the indexes are in memory only if they are complete.
    """
    end = segment.size_bytes
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    segment.reset_indexes()
    try:
        for position, header in check_batches(descriptor, end):
            segment.add_to_indexes(position, header.size_bytes, header.last_offset, header.max_timestamp)
    except (BadBatch, OSError):
        segment.discard_indexes()  # the largest timestamp of a part would be mistaken for the segment's
        raise
    finally:
        os.close(descriptor)
        segment.size_bytes = end
    segment.seal()
    segment.replace_indexes()
    segment.close()


def rebuild_or_fail(segment: Segment) -> None:
    """Rebuilds the indexes of a segment that was completely on the disk. Raises Damage for a bad batch, OSError."""
    try:
        rebuild_indexes(segment)
    except BadBatch as error:
        raise damage_in(segment, error) from error


def rebuild_for_reading(segment: Segment) -> None:
    """Rebuilds the indexes as `rebuild_or_fail` does.

    If the disk refuses them, they stay in memory until a later write.
    """
    try:
        rebuild_or_fail(segment)
    except OSError as error:
        if not (segment.time_index.has_unwritten_entries or segment.offset_index.has_unwritten_entries):
            raise
        _logger.warning("the indexes of %s can't be written and are kept in memory: %s", segment.path, error)

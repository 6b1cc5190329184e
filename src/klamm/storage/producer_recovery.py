"""What a log knew of its producers, found again: the newest snapshot that is good, and the batches after it.

Source: `UnifiedLog.rebuildProducerState`, `ProducerStateManager.removeStraySnapshots` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from klamm.core.log.producer_state import ProducerState
from klamm.protocol.types import Millis, Offset
from klamm.storage.batch_scan import BadBatch, ScannedBatch, scan_headers
from klamm.storage.log_files import SNAPSHOT_SUFFIX, file_name, parse_offset
from klamm.storage.producer_snapshot import CorruptSnapshot, read_snapshot
from klamm.storage.segment import Segment

__all__ = ["rebuild_producer_state", "segment_headers", "usable_snapshots"]

logger = logging.getLogger(__name__)


def usable_snapshots(
    directory: Path, snapshots: list[Offset], segments: list[Segment], log_end_offset: Offset
) -> list[Path]:
    """The snapshot files worth keeping, oldest first; the others are removed.

    A snapshot is kept where a segment begins, so that recovery can begin there, and the newest is.
    """
    keep = {segment.base_offset for segment in segments}
    usable = [offset for offset in snapshots if offset <= log_end_offset]
    kept = []
    for offset in snapshots:
        path = directory / file_name(offset, SNAPSHOT_SUFFIX)
        if offset <= log_end_offset and (offset in keep or offset == usable[-1]):
            kept.append(path)
        else:
            path.unlink(missing_ok=True)
    return kept


def rebuild_producer_state(  # noqa: PLR0917 - all of a log that bears on it
    producers: ProducerState,
    segments: list[Segment],
    snapshots: list[Path],
    log_start_offset: Offset,
    log_end_offset: Offset,
    now_ms: Millis,
    *,
    may_skip: bool = False,
) -> Offset:
    """Makes `producers` what the log says up to its end: the newest good snapshot, and the batches after it.

    `may_skip`: a log that was closed in order has a snapshot if it ever had a producer, so without one nothing is read.
    Returns where the snapshot was taken, the log start offset if there was none. Raises OSError.
    """
    producers.clear(log_start_offset)
    if not snapshots and may_skip:
        producers.end_offset = log_end_offset
    for path in reversed(snapshots):
        try:
            entries = read_snapshot(path)
        except CorruptSnapshot as error:
            logger.warning("%s can't be used: %s", path, error)
            path.unlink(missing_ok=True)
            continue
        producers.load(entries, parse_offset(path.name) or Offset(0), now_ms)
        break
    snapshot_offset = producers.end_offset
    for index, segment in enumerate(segments):
        is_known = index + 1 < len(segments) and segments[index + 1].base_offset <= snapshot_offset
        if is_known or snapshot_offset >= log_end_offset:
            continue
        try:
            for _, header in segment_headers(segment):
                if header.has_producer_id and header.base_offset >= snapshot_offset:
                    producers.record(header, header.base_offset)
        except BadBatch as error:
            logger.error("%s is damaged at position %d: %s", segment.path, error.position, error)
    producers.end_offset = log_end_offset
    return snapshot_offset


def segment_headers(segment: Segment) -> Iterator[ScannedBatch]:
    """All batches of a segment whose file need not be open. Raises BadBatch, OSError."""
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from scan_headers(descriptor, 0, segment.size_bytes)
    finally:
        os.close(descriptor)

"""The indexes of a segment, made again from its log: a recovery point may vouch for them, so they are synced."""

from __future__ import annotations

import os

from klamm.storage.atomic_file import sync_file
from klamm.storage.batch_scan import BadBatch, check_batches
from klamm.storage.damage import damage_in
from klamm.storage.segment import Segment

__all__ = ["rebuild_indexes", "rebuild_or_fail"]


def rebuild_indexes(segment: Segment) -> None:
    """Builds both indexes from the log, whose batches are checked, and brings them to the disk.

    Raises BadBatch, OSError.
    """
    end = segment.size_bytes
    segment.reset_indexes()
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for position, header in check_batches(descriptor, end):
            segment.add_to_indexes(position, header.size_bytes, header.last_offset, header.max_timestamp)
    finally:
        os.close(descriptor)
        segment.size_bytes = end
    segment.seal()
    segment.write_indexes()
    segment.close()
    sync_file(segment.offset_index.path)
    sync_file(segment.time_index.path)


def rebuild_or_fail(segment: Segment) -> None:
    """As `rebuild_indexes`, for a segment that was wholly on the disk. Raises Damage for a bad batch, OSError."""
    try:
        rebuild_indexes(segment)
    except BadBatch as error:
        raise damage_in(segment, error) from error

"""Finding batches in a segment: by offset, by timestamp, and the end.

The index leads to a batch at or before the one that is looked for; from there headers are walked.
Source: `LogSegment.translateOffset`, `readNextOffset`, `findOffsetByTimestamp` and `FileRecords.searchForTimestamp` of
Apache Kafka 4.3.
"""

from __future__ import annotations

import os

from klamm.protocol.record_batch import BatchHeader
from klamm.protocol.records import Record, decode_batch
from klamm.protocol.types import LeaderEpoch, Millis, Offset
from klamm.storage.batch_scan import BatchBounds, check_batches, scan_bounds, scan_headers
from klamm.storage.segment import Segment

__all__ = ["find_batch", "find_max_timestamp", "find_timestamp", "last_batch_end", "read_next_offset"]


def find_batch(segment: Segment, offset: int) -> BatchBounds | None:
    """The first batch that ends at `offset` or after it, None if the segment has none.

    Raises BadBatch, CorruptIndex, OSError.
    """
    start = segment.offset_index.lookup(offset)[1]
    for batch in scan_bounds(segment.descriptor, start, segment.size_bytes):
        if batch.last_offset >= offset:
            return batch
    return None


def last_batch_end(segment: Segment, start: int, limit: int) -> tuple[int, Offset | None]:
    """Where the last batch ends that lies wholly between the batch at `start` and `limit`, and the offset after it.

    The end is `start` if not even one does; the offset is None then. Raises as `find_batch`.
    """
    position = segment.offset_index.last_position_up_to(limit, start)
    end, next_offset = position, None
    for batch in scan_bounds(segment.descriptor, position, segment.size_bytes):
        if batch.end > limit:
            # The index may point at the very batch that doesn't fit, behind others that do.
            if next_offset is None and position > start:
                next_offset = Offset(batch.base_offset)
            break
        end, next_offset = batch.end, Offset(batch.last_offset + 1)
    return end, next_offset


def read_next_offset(segment: Segment) -> Offset:
    """The offset after the last batch: where an active segment goes on. Raises as `find_batch`.

    That batch's CRC is checked: what is written next has offsets that follow from what it says of its own.
    """
    next_offset = segment.base_offset
    start = segment.offset_index.last_entry()[1]
    last = None
    for last in scan_bounds(segment.descriptor, start, segment.size_bytes):
        next_offset = Offset(last.last_offset + 1)
    if last is not None:
        for _ in check_batches(segment.descriptor, last.end, last.position):
            pass
    return next_offset


def find_timestamp(segment: Segment, timestamp: int, start_offset: int) -> tuple[Millis, Offset, LeaderEpoch] | None:
    """Timestamp, offset and leader epoch of the first record from `start_offset` on that is no older than `timestamp`.

    Raises as `find_batch`, and KafkaError if the batch can't be opened.
    """
    _, indexed_offset = segment.time_index.lookup(timestamp)
    start = segment.offset_index.lookup(max(indexed_offset, start_offset))[1]
    for position, header in scan_headers(segment.descriptor, start, segment.size_bytes):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            for record in _open(segment, position, header):
                if record.timestamp_ms >= timestamp and record.offset >= start_offset:
                    return record.timestamp_ms, record.offset, header.partition_leader_epoch
    return None


def find_max_timestamp(segment: Segment) -> tuple[Millis, Offset, LeaderEpoch] | None:
    """Timestamp, offset and leader epoch of the first record that has the segment's largest timestamp.

    Raises as `find_timestamp`.
    """
    timestamp = segment.max_timestamp
    start = segment.offset_index.lookup(segment.offset_of_max_timestamp)[1]
    for position, header in scan_headers(segment.descriptor, start, segment.size_bytes):
        if header.max_timestamp == timestamp:
            for record in _open(segment, position, header):
                if record.timestamp_ms == timestamp:
                    return record.timestamp_ms, record.offset, header.partition_leader_epoch
            return None
    return None


def _open(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    return decode_batch(os.pread(segment.descriptor, header.size_bytes, position))

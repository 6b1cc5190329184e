"""Finds batches in a segment: by offset, by timestamp, and at the end.

The index leads to a batch at or before the wanted one; from there the headers are walked. An index is not synced while
its segment is written, so after a power failure it may hold any bytes. Each search therefore checks that a batch begins
at the indexed position.

Source: `LogSegment.translateOffset`, `readNextOffset`, `findOffsetByTimestamp` and `FileRecords.searchForTimestamp` of
Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator

from klamm.protocol.types import NO_TIMESTAMP, Offset
from klamm.storage.segment.batch_scan import (
    BadBatch,
    BatchBounds,
    ScannedBatch,
    check_batches,
    scan_bounds,
    scan_headers,
)
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.segment import Segment

__all__ = [
    "end_before",
    "find_batch",
    "find_last_batch",
    "find_young_batch",
    "find_youngest_batch",
    "last_batch_end",
    "offset_beyond",
    "read_next_offset",
]


def find_batch(segment: Segment, offset: int) -> BatchBounds | None:
    """Returns the first batch whose last offset is at or above `offset`, None if the segment has none.

    Raises BadBatch, CorruptIndex, OSError.
    """
    for batch in _scan_from(segment, *segment.offset_index.lookup(offset)):
        if batch.last_offset >= offset:
            return batch
    return None


def offset_beyond(segment: Segment, position: int) -> Offset | None:
    """Returns an offset not below the last offset of a batch that begins at `position` or later.

    None if the index has no such batch. Raises the errors of `find_batch`.
    """
    entry = segment.offset_index.first_entry_from(position)
    if entry is None:
        return None
    next(_scan_from(segment, *entry))
    return entry[0]


def _scan_from(segment: Segment, offset: int, position: int) -> Iterator[BatchBounds]:
    """Yields the batches from `position` on, where the index entry for `offset` points.

    Raises BadBatch, OSError, and CorruptIndex if no batch begins there that ends at or below `offset`. The offset may
    be above the batch's last offset: older versions of Apache Kafka index several batches that were appended together
    under the offset of the last one.
    """
    if position < 0:
        raise _misled(segment, position)
    batches = scan_bounds(segment.descriptor, position, segment.size_bytes)
    if position:
        try:
            first = next(batches, None)
        except BadBatch as error:
            raise _misled(segment, position) from error
        if first is None or not segment.base_offset <= first.base_offset <= first.last_offset <= offset:
            raise _misled(segment, position)
        yield first
    yield from batches


def _misled(segment: Segment, position: int) -> CorruptIndex:
    return CorruptIndex(
        segment.base_offset, f"{segment.offset_index.path} leads to position {position}, where no such batch begins"
    )


def last_batch_end(segment: Segment, start: int, limit: int) -> tuple[int, Offset | None]:
    """Returns the end of the last batch that lies fully between the batch at `start` and `limit`, and the offset after
    it.

    If no batch fits, the end is `start` and the offset is None. Raises the errors of `find_batch`.
    """
    offset, position = segment.offset_index.last_entry_up_to(limit)
    if position > start:
        batches = _scan_from(segment, offset, position)
    else:
        position, batches = start, scan_bounds(segment.descriptor, start, segment.size_bytes)
    end, next_offset = position, None
    for batch in batches:
        if batch.end > limit:
            # The index may point at the batch that does not fit, after others that do.
            if next_offset is None and position > start:
                next_offset = Offset(batch.base_offset)
            break
        end, next_offset = batch.end, Offset(batch.last_offset + 1)
    return end, next_offset


def end_before(segment: Segment, position: int) -> Offset:
    """Returns the offset after the last batch before `position`, where a batch begins or the file ends.

    The segment's base offset if there is none. Raises the errors of `find_batch`.
    """
    end = segment.base_offset
    if position:
        for batch in _scan_from(segment, *segment.offset_index.last_entry_up_to(position - 1)):
            if batch.position >= position:
                break
            end = Offset(batch.last_offset + 1)
    return end


def read_next_offset(segment: Segment) -> Offset:
    """Returns the offset after the last batch, where an active segment continues. Raises the errors of `find_batch`.

    The last batch's CRC is checked, because the next offsets follow from its header.
    """
    last = find_last_batch(segment)
    if last is None:
        return segment.base_offset
    for _ in check_batches(segment.descriptor, last.end, last.position):
        pass
    return Offset(last.last_offset + 1)


def find_last_batch(segment: Segment) -> BatchBounds | None:
    """Returns the last batch, None in an empty segment. Raises the errors of `find_batch`."""
    last = None
    for last in _scan_from(segment, *segment.offset_index.last_entry()):  # noqa: B007 - the last one is wanted
        pass
    return last


def find_young_batch(
    segment: Segment, timestamp: int, start_offset: int, max_headers: int
) -> ScannedBatch | Offset | None:
    """Returns the first batch with a last offset at or above `start_offset` and a largest timestamp at or above
    `timestamp`.

    None if the segment has none. If `max_headers` were checked without a match, returns the offset at which to
    continue. Raises the errors of `find_batch`.
    """
    indexed_timestamp, indexed_offset = found = segment.time_index.lookup(timestamp)
    # A torn entry may have any timestamp, also a negative one.
    is_unchecked = found != (NO_TIMESTAMP, segment.base_offset) and indexed_offset >= start_offset
    for count, batch in enumerate(_headers_from(segment, max(indexed_offset, start_offset)), 1):
        header = batch.header
        if is_unchecked and header.last_offset >= indexed_offset:
            # If the entry did not belong to this batch, records before it would be skipped.
            segment.check_time_entry(indexed_timestamp, header)
            is_unchecked = False
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            return batch
        if count >= max_headers and not is_unchecked:
            return header.next_offset
    if is_unchecked:
        raise _ends_before(segment, indexed_offset)
    return None


def find_youngest_batch(segment: Segment) -> ScannedBatch | None:
    """Returns the first batch that has the segment's largest timestamp. Raises the errors of `find_batch`."""
    timestamp = segment.max_timestamp
    if timestamp < 0:
        return None
    offset = segment.offset_of_max_timestamp
    for batch in _headers_from(segment, offset):
        if batch.header.last_offset >= offset:
            segment.check_time_entry(timestamp, batch.header)
            return batch
    raise _ends_before(segment, offset)


def _ends_before(segment: Segment, offset: int) -> CorruptIndex:
    return CorruptIndex(
        segment.base_offset, f"{segment.time_index.path} has an entry for offset {offset}, where its log has ended"
    )


def _headers_from(segment: Segment, offset: int) -> Iterator[ScannedBatch]:
    """Yields the batches from the one that `find_batch` returns for `offset`. Raises the errors of `find_batch`."""
    found = find_batch(segment, offset)
    if found is not None:
        yield from scan_headers(segment.descriptor, found.position, segment.size_bytes)

"""Reading a log: from an offset, by timestamp.

A consumer that reads on where it stopped needs no search: where the last read ended is remembered. Others are led by
the offset index to within `index.interval.bytes` of what they look for.

Source: `LocalLog.read`, `LogSegment.read`, `UnifiedLog.fetchOffsetByTimestamp` of Apache Kafka 4.3.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from klamm.core.log.timestamp_lookup import BatchLookup
from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, read_batch_header
from klamm.protocol.types import Offset
from klamm.storage.batch_scan import BadBatch, ScannedBatch
from klamm.storage.damage import damage_in
from klamm.storage.first_read import check_first_read
from klamm.storage.segment import Segment
from klamm.storage.segment_search import (
    find_batch,
    find_young_batch,
    find_youngest_batch,
    last_batch_end,
    offset_beyond,
)
from klamm.storage.segments import Segments
from klamm.storage.stored_batches import StoredBatches

__all__ = ["FileRange", "LogReader"]

REMEMBERED_POSITIONS: Final = 32
SENT_FROM_FILE_BYTES: Final = 64 * 1024
"""Fewer bytes are cheaper to read than to send separately."""
HEADERS_AT_ONCE: Final = 1000
"""So many headers are looked at in one step of a search: two milliseconds. The time index leads near to the batch,
unless the youngest one lies before the offset that the search begins at."""
LARGEST_TIMESTAMP: Final = 2**63 - 1


class FileRange(NamedTuple):
    """Some bytes of a file."""

    path: Path
    start: int
    length: int


class LogReader:
    """Reads from the segments of one log.

    All methods raise Damage, CorruptIndex and OSError.
    """

    __slots__ = ("_positions", "_segments", "_sends_from_files")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._positions: dict[int, tuple[Segment, int]] = {}
        self._sends_from_files = True

    def forget_positions(self) -> None:
        """Must follow every change other than an append."""
        self._positions.clear()

    def read(
        self,
        offset: Offset,
        max_bytes: int,
        *,
        upper_bound: Offset,
        log_end_offset: Offset,
        minimum_one_batch: bool,
        to_send: bool,
    ) -> bytes | memoryview | StoredBatches:
        """Whole batches from the one that holds `offset` on, as many as `max_bytes` and `upper_bound` allow.

        `minimum_one_batch`: the first may be larger than `max_bytes`. `upper_bound` must be where a batch begins.
        `to_send`: the caller can send large results from the file.
        """
        if offset >= upper_bound:
            return b""
        found = self._positions.get(offset)
        if found is None or found[1] >= found[0].size_bytes:
            found = self._locate(offset)
            if found is None:
                return b""
        try:
            return self._read_at(*found, max_bytes, upper_bound, log_end_offset, minimum_one_batch, to_send)
        except BadBatch as error:
            raise damage_in(found[0], error) from error

    def _read_at(  # noqa: PLR0917 - called once for each read: keywords would cost
        self,
        segment: Segment,
        position: int,
        max_bytes: int,
        upper_bound: Offset,
        log_end_offset: Offset,
        minimum_one_batch: bool,
        to_send: bool,
    ) -> bytes | memoryview | StoredBatches:
        limit = segment.size_bytes
        if upper_bound < log_end_offset:
            limit = self._limit(segment, upper_bound)
        length = min(max_bytes, limit - position)
        if length < HEADER_SIZE_BYTES:
            if not minimum_one_batch or position >= limit:
                return b""
            length = HEADER_SIZE_BYTES
        if to_send and (left := self._leave_at(segment, position, length, limit, upper_bound, log_end_offset)):
            return left
        data = os.pread(segment.descriptor, length, position)
        if len(data) < length:
            raise BadBatch(position, f"the file has only {len(data)} of {length} bytes there")
        if position + length == limit:
            if position < segment.unchecked_end:
                check_first_read(segment, position, data)
            self._remember_end(segment, limit, upper_bound, log_end_offset)
            return data
        first_size = int.from_bytes(data[8:LOG_OVERHEAD_BYTES], "big", signed=True) + LOG_OVERHEAD_BYTES
        if first_size > length:
            if not minimum_one_batch:
                return b""
            whole = os.pread(segment.descriptor, first_size, position)
            if position < segment.unchecked_end:
                check_first_read(segment, position, whole)
            self._remember(_next_offset(whole, position), segment, position + first_size)
            return whole
        end, next_offset = last_batch_end(segment, position, position + length)
        batches = memoryview(data)[: end - position]
        if position < segment.unchecked_end:
            check_first_read(segment, position, batches)
        if next_offset is not None:
            self._remember(next_offset, segment, end)
        return batches

    def _leave_at(  # noqa: PLR0917 - as above
        self,
        segment: Segment,
        position: int,
        length: int,
        limit: int,
        upper_bound: Offset,
        log_end_offset: Offset,
    ) -> StoredBatches | None:
        """Returns the batches that `_read_at` would read, without reading them.

        None if they are few, if their CRCs must be checked first, or if not even one batch fits.
        """
        if length < SENT_FROM_FILE_BYTES or not self._sends_from_files:
            return None
        end, next_offset = position + length, None
        if end < limit:
            end, next_offset = last_batch_end(segment, position, end)
        start, stop = segment.checked
        is_checked = position >= segment.unchecked_end or (start <= position and end <= stop)
        if end == position or not is_checked:
            return None
        if end == limit:
            self._remember_end(segment, limit, upper_bound, log_end_offset)
        elif next_offset is not None:
            self._remember(next_offset, segment, end)
        return StoredBatches(segment, position, end - position, self._read_from_now_on)

    def _read_from_now_on(self) -> None:
        """Stops leaving batches in the file: only a read can answer with what is wrong with it."""
        self._sends_from_files = False

    def file_ranges(self, offset: Offset, max_bytes: int) -> list[FileRange]:
        """Where in which files the `max_bytes` from `offset` on lie; fewer at the end of the log."""
        found = self._locate(offset)
        ranges: list[FileRange] = []
        if found is None:
            return ranges
        segment, position = found
        for index in range(self._segments.index_of(segment.base_offset), len(self._segments)):
            segment = self._segments[index]
            length = min(segment.size_bytes - position, max_bytes)
            if length > 0:
                ranges.append(FileRange(segment.path, position, length))
                max_bytes -= length
            position = 0
            if max_bytes <= 0:
                break
        return ranges

    def upper_bound(self, offset: Offset, size_bytes: int, log_end_offset: Offset) -> Offset:
        """An offset that lies beyond what was read, which is `size_bytes` at `offset`; not the first one that does."""
        found = self._locate(offset)
        if found is None:
            return log_end_offset
        segment, position = found
        indexed = offset_beyond(segment, position + size_bytes)
        if indexed is not None:
            return indexed
        following = self._segments.index_of(segment.base_offset) + 1
        return self._segments[following].base_offset if following < len(self._segments) else log_end_offset

    def _remember_end(self, segment: Segment, limit: int, upper_bound: Offset, log_end_offset: Offset) -> None:
        if limit < segment.size_bytes:
            self._remember(upper_bound, segment, limit)
        elif segment is self._segments.active:
            self._remember(log_end_offset, segment, limit)
        else:
            following = self._segments[self._segments.index_of(segment.base_offset) + 1]
            self._remember(following.base_offset, following, 0)

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        positions = self._positions
        positions[offset] = (segment, position)
        if len(positions) > REMEMBERED_POSITIONS:
            del positions[next(iter(positions))]

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        segments = self._segments
        for index in range(segments.index_of(offset), len(segments)):
            try:
                found = find_batch(segments[index], offset)
            except BadBatch as error:
                raise damage_in(segments[index], error) from error
            if found is not None:
                return segments[index], found.position
        return None

    def _limit(self, segment: Segment, upper_bound: Offset) -> int:
        """Where in the segment the batch at `upper_bound` begins; the end if that is in a later segment."""
        found = find_batch(segment, upper_bound)
        return found.position if found is not None else segment.size_bytes

    def find_young_batch(self, timestamp: int, start_offset: Offset) -> BatchLookup | Offset | None:
        """The first batch from `start_offset` on that has a record no older than `timestamp`, if its header is right.

        None if there is none; the offset to go on from where there are too many headers to look at in one step.
        Kafka looks only into the first segment that has one as young, which may lie below the log start offset.
        """
        segments = self._segments
        for index in range(segments.index_of(start_offset), len(segments)):
            segment = segments[index]
            if not segment.size_bytes:
                continue
            try:
                is_young = segment.largest_timestamp() >= timestamp
                found = find_young_batch(segment, timestamp, start_offset, HEADERS_AT_ONCE) if is_young else None
            except BadBatch as error:
                raise damage_in(segment, error) from error
            if isinstance(found, ScannedBatch):
                return _lookup(segment, found, timestamp, LARGEST_TIMESTAMP, start_offset)
            if found is not None:
                return found
        return None

    def find_youngest_batch(self) -> BatchLookup | None:
        """The first batch that has the largest timestamp."""
        # max returns the first of equals, as Kafka's search does.
        segment = max(self._segments, key=_max_timestamp_of)
        try:
            found = find_youngest_batch(segment)
        except BadBatch as error:
            raise damage_in(segment, error) from error
        timestamp = segment.max_timestamp
        return None if found is None else _lookup(segment, found, timestamp, timestamp, Offset(0))


def _lookup(segment: Segment, batch: ScannedBatch, oldest: int, newest: int, first_offset: Offset) -> BatchLookup:
    """What is to be looked through. Raises Damage for a batch that was not read before, and is not what was written."""
    records = os.pread(segment.descriptor, batch.header.size_bytes, batch.position)
    if batch.position < segment.unchecked_end:
        try:
            check_first_read(segment, batch.position, records)
        except BadBatch as error:
            raise damage_in(segment, error) from error
    return BatchLookup(records, batch.header, oldest, newest, first_offset)


def _max_timestamp_of(segment: Segment) -> int:
    try:
        return segment.max_timestamp
    except BadBatch as error:
        raise damage_in(segment, error) from error


def _next_offset(batch: bytes, position: int) -> Offset:
    """Returns the offset after a batch that was read at `position`. Raises BadBatch."""
    try:
        return read_batch_header(batch).next_offset
    except KafkaError as error:
        raise BadBatch(position, str(error)) from error

"""Reads a log from an offset, and handles files that can't be read.

A consumer that continues where its last read ended needs no search: the end positions of reads are cached. For other
reads, the offset index leads to within `index.interval.bytes` of the offset.

Source: `LocalLog.read`, `LogSegment.read` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, LOG_OVERHEAD_BYTES, read_batch_header
from klamm.protocol.types import Offset
from klamm.storage.log.log_state import LogState
from klamm.storage.log.stored_batches import StoredBatches
from klamm.storage.recovery.index_recovery import rebuild_for_reading
from klamm.storage.segment.batch_scan import BadBatch, BatchBounds
from klamm.storage.segment.damage import Damage, damage_in
from klamm.storage.segment.first_read import check_first_read
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.segment import Segment
from klamm.storage.segment.segment_search import find_batch, last_batch_end, offset_beyond

__all__ = ["FileRange", "LogReader"]

_logger = logging.getLogger(__name__)

T = TypeVar("T")

_REMEMBERED_POSITIONS: Final = 32
SENT_FROM_FILE_BYTES: Final = 64 * 1024
"""Below this size, reading is cheaper than sending from the file."""


class FileRange(NamedTuple):
    """A range of bytes in a file."""

    path: Path
    start: int
    length: int


class LogReader:
    """Reads from the segments of one log.

    A damaged index is rebuilt, and the read is repeated. Damaged batches take the log offline: nothing may be appended
    to records that differ from what was written.
    """

    __slots__ = ("_log", "_positions", "_segments", "_sends_from_files", "changes")

    def __init__(self, log: LogState) -> None:
        self.changes = 0
        """Number of changes of the log other than appends. While it stays the same, a read gives the same bytes."""
        self._log = log
        self._segments = log.segments
        self._positions: dict[int, tuple[Segment, int]] = {}
        self._sends_from_files = True

    def forget_positions(self) -> None:
        """Clears the cached positions. Must be called for every change other than an append."""
        self._positions.clear()
        self.changes += 1

    def look_up(self, search: Callable[[], T]) -> T:
        """Returns the result of `search` in the segments. Calls it again after a damaged index was rebuilt.

        Raises `KafkaError` KAFKA_STORAGE_ERROR for the Damage, CorruptIndex and OSError of the search.
        """
        self._log.check_online()
        while True:
            try:
                return search()
            except (Damage, CorruptIndex, OSError) as error:
                self._handle_read_error(error)

    def _handle_read_error(self, error: Exception) -> None:
        """Raises the error for the response, unless a damaged index was rebuilt: then the reader tries again."""
        log = self._log
        if isinstance(error, CorruptIndex):
            _logger.warning("%s; it is rebuilt", error)
            try:
                for segment in self._segments:
                    if segment.base_offset == error.base_offset:
                        rebuild_for_reading(segment)
            except (Damage, OSError) as second_error:
                error = second_error
            else:
                return
        if isinstance(error, Damage):
            log.mark_offline(str(error))
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.offline_reason) from error
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log} can't be read: {error}") from error

    def read(
        self, offset: Offset, max_bytes: int, *, upper_bound: Offset, minimum_one_batch: bool, to_send: bool
    ) -> bytes | memoryview | StoredBatches:
        """Returns whole batches from the one that holds `offset` on, as many as `max_bytes` and `upper_bound` allow.

        `minimum_one_batch`: the first batch may be larger than `max_bytes`. `upper_bound` must be the base offset of a
        batch. `to_send`: the caller can send large results from the file.

        Raises `KafkaError`: OFFSET_OUT_OF_RANGE outside the log, KAFKA_STORAGE_ERROR if the log can't be read.
        """
        log = self._log
        if log.offline_reason is not None or self._segments.active is None:
            log.check_online()
        log_end_offset = log.log_end_offset
        if not log.log_start_offset <= offset <= log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within {log.log_start_offset} to {log_end_offset} of {log}",
            )
        if offset >= upper_bound:
            return b""
        try:
            found = self._positions.get(offset)
            if found is None or found[1] >= found[0].size_bytes:
                found = self._locate(offset)
                if found is None:
                    return b""
            try:
                return self._read_at(*found, max_bytes, upper_bound, log_end_offset, minimum_one_batch, to_send)
            except BadBatch as error:
                raise damage_in(found[0], error) from error
        except (Damage, CorruptIndex, OSError) as error:
            self._handle_read_error(error)
        return self.read(
            offset, max_bytes, upper_bound=upper_bound, minimum_one_batch=minimum_one_batch, to_send=to_send
        )

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

        None if they are small, if their CRCs must be checked first, or if not even one batch fits.
        """
        if length < SENT_FROM_FILE_BYTES or not self._sends_from_files:
            return None
        end, next_offset = position + length, None
        if end < limit:
            end, next_offset = last_batch_end(segment, position, end)
        start, stop = segment.checked
        is_checked = position >= segment.unchecked_end or (start <= position and end <= stop)
        # Whole batches may be far fewer bytes than `length`, if the next batch is large.
        if end - position < SENT_FROM_FILE_BYTES or not is_checked:
            return None
        if end == limit:
            next_offset = self._remember_end(segment, limit, upper_bound, log_end_offset)
        else:
            assert next_offset is not None, "some batches fit"
            self._remember(next_offset, segment, end)
        return StoredBatches(segment, position, end - position, next_offset, self._read_from_now_on)

    def _read_from_now_on(self) -> None:
        """Stops sending batches from files, because only a read can report to the client what is wrong with the
        file."""
        self._sends_from_files = False

    def file_ranges(self, offset: Offset, max_bytes: int) -> list[FileRange]:
        """Returns the file ranges of the `max_bytes` from `offset` on, so that a caller can prefetch them.

        At the end of the log the ranges are shorter. Returns an empty list outside the log and if the log can't be
        read: the later read reports the error.
        """
        log = self._log
        if log.offline_reason is not None or self._segments.active is None:
            return []
        if not log.log_start_offset <= offset < log.log_end_offset:
            return []
        try:
            return self._find_ranges(offset, max_bytes)
        except (Damage, CorruptIndex, OSError):
            return []

    def _find_ranges(self, offset: Offset, max_bytes: int) -> list[FileRange]:
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

    def upper_bound(self, offset: Offset, size_bytes: int) -> Offset:
        """Returns an offset after the `size_bytes` that were read at `offset`, though not always the smallest one.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        return self.look_up(partial(self._find_upper_bound, offset, size_bytes))

    def _find_upper_bound(self, offset: Offset, size_bytes: int) -> Offset:
        log_end_offset = self._log.log_end_offset
        found = self._locate(offset)
        if found is None:
            return log_end_offset
        segment, position = found
        indexed = offset_beyond(segment, position + size_bytes)
        if indexed is not None:
            return indexed
        following = self._segments.index_of(segment.base_offset) + 1
        return self._segments[following].base_offset if following < len(self._segments) else log_end_offset

    def _remember_end(self, segment: Segment, limit: int, upper_bound: Offset, log_end_offset: Offset) -> Offset:
        """Remembers where a read continues that ends at `limit`, and returns its offset."""
        if limit < segment.size_bytes:
            next_offset, position = upper_bound, limit
        elif segment is self._segments.active:
            next_offset, position = log_end_offset, limit
        else:
            segment = self._segments[self._segments.index_of(segment.base_offset) + 1]
            next_offset, position = segment.base_offset, 0
        self._remember(next_offset, segment, position)
        return next_offset

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        positions = self._positions
        positions[offset] = (segment, position)
        if len(positions) > _REMEMBERED_POSITIONS:
            del positions[next(iter(positions))]

    def batch_bytes(self, offset: Offset) -> int:
        """Returns the size of the batch that holds `offset`, without reading it; 0 if there is none.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        found = self.look_up(partial(self._find, offset))
        return 0 if found is None else found[1].end - found[1].position

    def _locate(self, offset: int) -> tuple[Segment, int] | None:
        found = self._find(offset)
        return None if found is None else (found[0], found[1].position)

    def _find(self, offset: int) -> tuple[Segment, BatchBounds] | None:
        segments = self._segments
        for index in range(segments.index_of(offset), len(segments)):
            try:
                found = find_batch(segments[index], offset)
            except BadBatch as error:
                raise damage_in(segments[index], error) from error
            if found is not None:
                return segments[index], found
        return None

    def _limit(self, segment: Segment, upper_bound: Offset) -> int:
        """Returns the position in the segment of the batch at `upper_bound`, the segment's end if that batch is in a
        later one."""
        found = find_batch(segment, upper_bound)
        return found.position if found is not None else segment.size_bytes


def _next_offset(batch: bytes, position: int) -> Offset:
    """Returns the offset after a batch that was read at `position`. Raises BadBatch."""
    try:
        return read_batch_header(batch).next_offset
    except KafkaError as error:
        raise BadBatch(position, str(error)) from error

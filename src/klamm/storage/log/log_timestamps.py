"""Searches a log for records by timestamp.

Source: `UnifiedLog.fetchOffsetByTimestamp` of Apache Kafka 4.3.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from functools import partial
from typing import Final, TypeAlias

from klamm.core.log.timestamp_lookup import BatchLookup, TimestampedOffset
from klamm.protocol.types import Millis, Offset
from klamm.storage.log.log_reader import LogReader
from klamm.storage.log.log_state import LogState
from klamm.storage.segment.batch_scan import BadBatch, ScannedBatch
from klamm.storage.segment.damage import damage_in
from klamm.storage.segment.first_read import check_first_read
from klamm.storage.segment.segment import Segment
from klamm.storage.segment.segment_search import find_young_batch, find_youngest_batch

__all__ = ["LogTimestamps", "TimestampSearch"]

TimestampSearch: TypeAlias = "Generator[BatchLookup | None, TimestampedOffset | None, TimestampedOffset | None]"
"""A search of a log by time.

It yields each batch whose records must be searched, and expects the result of that search to be sent in. It yields None
to let other tasks run. Between two steps the log may change. It returns timestamp, offset and leader epoch of the
record, None if there is none.
"""

_MAXIMUM_FRUITLESS_LOOKUPS: Final = 16
"""Maximum number of batches that are searched without a match.

A batch may hold no record of the time in its header: the batch in which the search begins, or a batch with a false
timestamp from its producer. After this number, a search trusts the header and returns the beginning of the batch.
"""
_HEADERS_AT_ONCE: Final = 1000
"""Number of headers per step of a search: about two milliseconds.

The time index leads close to the batch, unless the youngest batch lies before the offset at which the search begins.
"""
_LARGEST_TIMESTAMP: Final = 2**63 - 1


class LogTimestamps:
    """Searches one log by time, in steps, so that other tasks of the broker's event loop can run."""

    __slots__ = ("_log", "_reader")

    def __init__(self, log: LogState, reader: LogReader) -> None:
        self._log = log
        self._reader = reader

    def search(self, timestamp_ms: Millis) -> TimestampSearch:
        """Searches for the first record that is not older than `timestamp_ms`.

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        offset = self._log.log_start_offset
        fruitless = 0
        while True:
            batch = self._reader.look_up(partial(self._find_young_batch, timestamp_ms, offset))
            if batch is None:
                return None
            if not isinstance(batch, BatchLookup):
                offset = batch
                yield None
                continue
            header = batch.header
            if fruitless == _MAXIMUM_FRUITLESS_LOOKUPS:
                return header.max_timestamp, max(header.base_offset, offset), header.partition_leader_epoch
            found = yield batch
            if found is not None:
                return found
            fruitless += 1
            offset = header.next_offset

    def search_max(self) -> TimestampSearch:
        """Searches for the first record with the largest timestamp (KIP-734).

        Raises `KafkaError` KAFKA_STORAGE_ERROR.
        """
        batch = self._reader.look_up(self._find_youngest_batch)
        return None if batch is None else (yield batch)

    def _find_young_batch(self, timestamp: int, start_offset: Offset) -> BatchLookup | Offset | None:
        """Returns the first batch from `start_offset` on whose header claims a record not older than `timestamp`.

        None if there is none. If there are too many headers for one step, returns the offset at which to continue.
        Kafka searches only the first segment with such a timestamp, which may lie below the log start offset.
        """
        segments = self._log.segments
        for index in range(segments.index_of(start_offset), len(segments)):
            segment = segments[index]
            if not segment.size_bytes:
                continue
            try:
                is_young = segment.largest_timestamp() >= timestamp
                found = find_young_batch(segment, timestamp, start_offset, _HEADERS_AT_ONCE) if is_young else None
            except BadBatch as error:
                raise damage_in(segment, error) from error
            if isinstance(found, ScannedBatch):
                return _lookup(segment, found, timestamp, _LARGEST_TIMESTAMP, start_offset)
            if found is not None:
                return found
        return None

    def _find_youngest_batch(self) -> BatchLookup | None:
        """Returns the first batch that has the largest timestamp."""
        # max returns the first of equal segments, as Kafka's search does.
        segment = max(self._log.segments, key=_max_timestamp_of)
        try:
            found = find_youngest_batch(segment)
        except BadBatch as error:
            raise damage_in(segment, error) from error
        timestamp = segment.max_timestamp
        return None if found is None else _lookup(segment, found, timestamp, timestamp, Offset(0))


def _lookup(segment: Segment, batch: ScannedBatch, oldest: int, newest: int, first_offset: Offset) -> BatchLookup:
    """Returns the records of the batch and the timestamps to search for.

    Raises Damage if the batch is read for the first time and differs from what was written.
    """
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

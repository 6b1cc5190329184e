"""Finds the first record of a batch in a range of timestamps.

The batch is found by its header; the record in it only by reading the records. As with batches that a leader opens
(`batch_opening`), a small batch can hold very many records, so a lookup is limited: at the limit it returns the first
record that it has not read. No record in the range is before that one, so a consumer that starts there misses nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from klamm.core.log.batch_opening import MAXIMUM_OPENED_BYTES, MAXIMUM_OPENED_RECORDS, BeginningIsNotEnough
from klamm.protocol.compression import OpenedData
from klamm.protocol.record_batch import BatchHeader
from klamm.protocol.record_scanner import RecordQuery, find_records, open_batch
from klamm.protocol.types import LeaderEpoch, Millis, Offset

__all__ = ["BatchLookup", "TimestampedOffset"]

TimestampedOffset = tuple[Millis, Offset, LeaderEpoch]
"""A record's timestamp, its offset, and its leader epoch."""

_LARGEST: Final = 2**63 - 1


class BatchLookup(NamedTuple):
    """A lookup in a batch, with its own copy of the bytes. Any thread may run it.

    It finds the first record from `first_offset` on with a timestamp from `oldest` to `newest`.
    """

    records: bytes
    header: BatchHeader
    oldest: int
    newest: int
    first_offset: int

    @property
    def records_count(self) -> int:
        """How many records have to be read, according to the batch's header."""
        return min(self.header.records_count, MAXIMUM_OPENED_RECORDS)

    @property
    def cost(self) -> int:
        """The time per opened byte, relative to a compressed batch; 0 if the batch is not compressed."""
        return 1 if self.header.compression else 0

    @property
    def compressed_bytes(self) -> int:
        """Size of the batch if it is compressed, else 0."""
        return self.header.size_bytes if self.header.compression else 0

    @property
    def max_bytes(self) -> int:
        """The most bytes to which the batch is opened."""
        return MAXIMUM_OPENED_BYTES

    def open_within(self, max_bytes: int) -> OpenedData:
        """Opens the batch's records up to `max_bytes`. Raises `KafkaError` (CORRUPT_MESSAGE)."""
        return open_batch(self.records, 0, self.header, min(max_bytes, self.max_bytes))

    def steps(self, opened: OpenedData) -> Generator[None, None, TimestampedOffset | None]:
        """Returns the record, or at the limit the first one that was not read; None if there is no such record.

        Yields at intervals, so that other threads can run. Raises `BeginningIsNotEnough`, and `KafkaError`
        (INVALID_RECORD) for bytes that are no record.
        """
        header = self.header
        query = RecordQuery(
            base_timestamp=header.base_timestamp,
            append_time=header.max_timestamp if header.timestamp_type else None,
            oldest=self.oldest,
            newest=min(self.newest, _LARGEST),
            is_inside=True,
            first_offset_delta=max(self.first_offset - header.base_offset, 0),
        )
        found = yield from find_records(
            opened, header.records_count, query, max_records=MAXIMUM_OPENED_RECORDS, max_found=1
        )
        if found.records:
            record = found.records[0]
            offset = Offset(header.base_offset + record.offset_delta)
            return Millis(record.timestamp), offset, header.partition_leader_epoch
        if found.is_complete:
            return None
        if found.walked < MAXIMUM_OPENED_RECORDS and not opened.is_whole and opened.max_bytes < self.max_bytes:
            raise BeginningIsNotEnough
        unknown = Offset(max(header.base_offset + found.walked, self.first_offset))
        return header.max_timestamp, unknown, header.partition_leader_epoch

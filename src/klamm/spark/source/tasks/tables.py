"""Turns fetched batches into tables of a size that suits Spark, with the visible records only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from klamm.client.fetch import FetchedBatches
from klamm.client.visible import Visibility
from klamm.protocol.compression import decompress
from klamm.protocol.record_batch import (
    HEADER_SIZE_BYTES,
    BatchHeader,
    CorruptRecord,
    batch_crc_is_valid,
    read_batch_header,
)
from klamm.protocol.records import require_magic
from klamm.spark.source.tasks.columns import ColumnFiller, RecordColumns, column_filler

__all__ = ["TableBuilder"]

# Spark is fastest with batches of 10,000 to 50,000 rows; large records fill a batch sooner.
_ROWS: Final = 20_000
_BYTES: Final = 8 * 1024 * 1024


class TableBuilder:
    """Collects the visible records with an offset in [start_offset, end_offset) in tables.

    The records are those of one range, with the number 0, or of several ranges, one after the other.

    Its methods raise `KafkaError`: CORRUPT_MESSAGE for a bad CRC or codec, INVALID_RECORD for a malformed record or a
    time that Spark can't represent, UNSUPPORTED_FOR_MESSAGE_FORMAT for magic 0 and 1.
    """

    def __init__(
        self,
        start_offset: int,
        end_offset: int,
        *,
        include_headers: bool,
        check_crcs: bool,
        filler: ColumnFiller | None = None,
    ) -> None:
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._check_crcs = check_crcs
        self._filler = filler or column_filler(_ROWS, _BYTES, include_headers=include_headers)
        self._filler.set_range(start_offset, end_offset)

    def add(self, fetched: FetchedBatches) -> Iterator[RecordColumns]:
        """Adds the batches of one response, and yields the tables that are full."""
        records = fetched.records
        visibility = Visibility(fetched.aborted_transactions)
        filler = self._filler
        position = 0
        while position < len(records):
            position = filler.add_plain_batches(
                records, position, check_crcs=self._check_crcs, with_transactions=visibility.of_all_transactions
            )
            if filler.is_full:
                yield from self.finish()
            elif position < len(records):
                header = read_batch_header(records, position)
                batch = records[position : position + header.size_bytes]
                if self._is_visible(header, batch, visibility):
                    yield from self._add_batch(header, batch)
                position += header.size_bytes

    def go_on_with(self, number: int, start_offset: int, end_offset: int) -> None:
        """Switches to another range, whose rows have this number, in the same table."""
        self._start_offset, self._end_offset = start_offset, end_offset
        self._filler.set_range(start_offset, end_offset, number)

    def skip_to(self, offset: int) -> Iterator[RecordColumns]:
        """Yields the current table, then ignores offsets before this one: a batch may begin before the start of the
        log."""
        yield from self.finish()
        self._start_offset = offset
        self._filler.set_range(offset, self._end_offset)

    def finish(self) -> Iterator[RecordColumns]:
        """Yields the records collected so far as a table, if there are any."""
        if self._filler.rows:
            table = self._filler.take()
            if table.rows:
                yield table

    def _is_visible(self, header: BatchHeader, batch: memoryview, visibility: Visibility) -> bool:
        require_magic(header)
        if self._check_crcs and not batch_crc_is_valid(batch, 0, header):
            raise CorruptRecord(
                f"the CRC of the batch at offset {header.base_offset} does not match its bytes; "
                "kafka.check.crcs=false reads it all the same"
            )
        return visibility.allows(header, batch)

    def _add_batch(self, header: BatchHeader, batch: memoryview) -> Iterator[RecordColumns]:
        if header.last_offset < self._start_offset or header.base_offset >= self._end_offset:
            return
        body: bytes | memoryview = batch[HEADER_SIZE_BYTES:]
        if header.compression:
            body = decompress(header.compression, body)
        append_time = header.max_timestamp if header.timestamp_type else None
        position, left = 0, header.records_count
        while True:
            position, left = self._filler.add_records(
                body,
                position,
                left,
                base_offset=header.base_offset,
                base_timestamp=header.base_timestamp,
                append_time=append_time,
            )
            if self._filler.is_full:
                yield from self.finish()
            if not left:
                return

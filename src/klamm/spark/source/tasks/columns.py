"""Turns record batches into tables of Arrow columns, without an object per record.

A filler takes the records of many batches, one after the other, until its table is full. The compiled filler
(`klamm.protocol._record_scanner`) copies each key and value once, from the buffer of the socket or codec to Arrow's
buffer. Installations without a compiler use numpy (`numpy_columns`); `KLAMM_PURE_PYTHON=1` in the environment selects
numpy as well.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from klamm.protocol.checksum import crc32c
from klamm.protocol.record_scanner import IS_COMPILED

__all__ = ["HEADERS_TYPE", "ColumnFiller", "CompiledColumnFiller", "RecordColumns", "column_filler"]

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
_HEADER_TYPE: Final = HEADERS_TYPE.value_type
_TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")


class RecordColumns(NamedTuple):
    """Some records in the order of their offsets; all columns have the same length."""

    rows: int
    keys: pa.Array[Any]
    values: pa.Array[Any]
    offsets: pa.Array[Any]
    timestamps: pa.Array[Any]
    """In microseconds."""
    timestamp_types: pa.Array[Any]
    headers: pa.Array[Any] | None
    """None if headers are not included; null for a record without headers, as in Spark's own source."""
    ranges: tuple[tuple[int, int], ...]
    """The ranges of the rows, in order: each range's number, and its number of rows."""


class ColumnFiller(Protocol):
    """Collects records in a table with a limit of rows, and a limit of bytes, which only a single record may exceed.

    Raises `KafkaError` (INVALID_RECORD) for a malformed record, and for a time that does not fit into Spark's
    microseconds; the filler is unusable then.
    """

    @property
    def rows(self) -> int:
        """The number of records in the table."""

    @property
    def is_full(self) -> bool:
        """Whether to `take` the table before more is added."""

    def set_range(self, start_offset: int, end_offset: int, number: int = 0) -> None:
        """Accepts only records with an offset in [start_offset, end_offset) from now on; a new filler accepts all.

        The table may hold records of other ranges; `number` identifies the rows of this one.
        """

    def add_plain_batches(
        self, records: memoryview, position: int, *, check_crcs: bool, with_transactions: bool
    ) -> int:
        """Adds whole batches from `position` on, and returns the position that it reached.

        That is the end of the records, or a batch for which the table has no room (`is_full` is true), or a batch that
        needs other treatment: compressed, a control batch, transactional unless `with_transactions`, too large to add
        at once, damaged, or of an old format.
        """

    def add_records(
        self,
        body: bytes | memoryview,
        position: int,
        count: int,
        *,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> tuple[int, int]:
        """Adds records of one batch until the table is full; `body` holds `count` of them from `position` on.

        Returns the position that it reached, and the number of records left. `append_time` replaces every timestamp,
        unless it is None.
        """

    def take(self) -> RecordColumns:
        """Returns the table, and begins a new one."""


class CompiledColumnFiller:
    """The `ColumnFiller` with compiled loops."""

    def __init__(self, max_rows: int, max_bytes: int, *, include_headers: bool) -> None:
        from klamm.protocol import _record_scanner

        self._filler = _record_scanner.ColumnFiller(max_rows, max_bytes, include_headers=include_headers)
        self._ranges = [(0, 0)]
        """The number and first row of each range set for the table."""
        self.add_records = self._filler.add_records

    @property
    def rows(self) -> int:
        """The number of records in the table."""
        return self._filler.rows

    @property
    def is_full(self) -> bool:
        """Whether to `take` the table before more is added."""
        return self._filler.is_full

    def set_range(self, start_offset: int, end_offset: int, number: int = 0) -> None:
        """Implements `ColumnFiller`."""
        self._ranges.append((number, self._filler.rows))
        self._filler.set_range(start_offset, end_offset)

    def add_plain_batches(
        self, records: memoryview, position: int, *, check_crcs: bool, with_transactions: bool
    ) -> int:
        """Implements `ColumnFiller`."""
        return self._filler.add_plain_batches(records, position, crc32c if check_crcs else None, with_transactions)

    def take(self) -> RecordColumns:
        """Implements `ColumnFiller`; the columns use the compiled loops' memory."""
        rows, keys, values, offsets, timestamps, timestamp_types, headers = self._filler.take()
        ends = [*(first for _, first in self._ranges[1:]), rows]
        ranges = [(number, end - first) for (number, first), end in zip(self._ranges, ends, strict=True) if end > first]
        self._ranges = [(self._ranges[-1][0], 0)]
        return RecordColumns(
            rows,
            _bytes_column(pa.binary(), rows, keys),
            _bytes_column(pa.binary(), rows, values),
            _numbers(pa.int64(), rows, offsets),
            _numbers(_TIMESTAMP_TYPE, rows, timestamps),
            _numbers(pa.int32(), rows, timestamp_types),
            None if headers is None else _header_lists(rows, headers),
            tuple(ranges),
        )


def _numbers(kind: pa.DataType, rows: int, numbers: Any) -> pa.Array[Any]:
    # `pa.array` would import pandas, which takes half a second.
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(numbers)], 0)


def _bytes_column(kind: pa.DataType, rows: int, column: tuple[int, Any, Any, Any]) -> pa.Array[Any]:
    nulls, valid, bounds, data = column
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, rows, buffers, nulls)


def _header_lists(rows: int, column: tuple[int, Any, Any, Any, Any]) -> pa.Array[Any]:
    nulls, valid, bounds, keys, values = column
    count = len(keys[2]) // 4 - 1
    children = [_bytes_column(pa.string(), count, keys), _bytes_column(pa.binary(), count, values)]
    headers = pa.Array.from_buffers(_HEADER_TYPE, count, [None], 0, children=children)
    buffers = [None if valid is None else pa.py_buffer(valid), pa.py_buffer(bounds)]
    return pa.Array.from_buffers(HEADERS_TYPE, rows, buffers, nulls, children=[headers])


def column_filler(max_rows: int, max_bytes: int, *, include_headers: bool = False) -> ColumnFiller:
    """Returns the fastest filler that is installed."""
    if IS_COMPILED:
        return CompiledColumnFiller(max_rows, max_bytes, include_headers=include_headers)
    from klamm.spark.source.tasks.numpy_columns import NumpyColumnFiller

    return NumpyColumnFiller(max_rows, max_bytes, include_headers=include_headers)

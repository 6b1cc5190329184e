"""Record batches turned into tables of Arrow columns, without an object per record.

A filler takes the records of many batches, one behind the other, until its table is full. The compiled one
(`klamm.protocol._record_scanner`) copies each key and value once, from where the socket or the codec put it to where
Arrow wants it; its twin for installations without a compiler does the same with numpy (`numpy_columns`).
`KLAMM_PURE_PYTHON=1` in the environment takes the twin.
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
    """Some records in the order of their offsets; all columns are equally long."""

    rows: int
    keys: pa.Array[Any]
    values: pa.Array[Any]
    offsets: pa.Array[Any]
    timestamps: pa.Array[Any]
    """In microseconds."""
    timestamp_types: pa.Array[Any]
    headers: pa.Array[Any] | None
    """None unless asked for; a record without headers has null in it, as in Spark's own source."""
    ranges: tuple[tuple[int, int], ...]
    """Of which range the rows are, one range behind the other: its number, and how many rows."""


class ColumnFiller(Protocol):
    """Gathers records into a table of at most so many rows, and of so many bytes unless one record has more.

    Raises `KafkaError` (INVALID_RECORD) for what is no record, and for a time that Spark's microseconds can't hold;
    nothing can be done with the filler then.
    """

    @property
    def rows(self) -> int:
        """Records in the table."""

    @property
    def is_full(self) -> bool:
        """Whether to `take` the table before more is added."""

    def set_range(self, start_offset: int, end_offset: int, number: int = 0) -> None:
        """From now on only records with an offset in [start_offset, end_offset) are taken; at first all are.

        The table may hold records of other ranges; `number` says which rows are of this one.
        """

    def add_plain_batches(
        self, records: memoryview, position: int, *, check_crcs: bool, with_transactions: bool
    ) -> int:
        """Adds whole batches from `position` on, and returns where it came to.

        That is the end of the records; or a batch that a table has no room for, `is_full` says so; or one that has to
        be looked at more closely: compressed, a control batch, of a transaction unless those may be seen too, too large
        to be added at once, damaged, or of an old format.
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
        """Adds records of one batch until the table is full: `count` of them stand in `body` from `position` on.

        Returns where it came to, and how many are left. `append_time` stands for every timestamp, unless it is None.
        """

    def take(self) -> RecordColumns:
        """The table; another is begun."""


class CompiledColumnFiller:
    """The compiled loops; see `ColumnFiller`."""

    def __init__(self, max_rows: int, max_bytes: int, *, include_headers: bool) -> None:
        from klamm.protocol import _record_scanner

        self._filler = _record_scanner.ColumnFiller(max_rows, max_bytes, include_headers=include_headers)
        self._ranges = [(0, 0)]
        """Number and first row of each range that the table was to take something of."""
        self.add_records = self._filler.add_records

    @property
    def rows(self) -> int:
        """Records in the table."""
        return self._filler.rows

    @property
    def is_full(self) -> bool:
        """Whether to `take` the table before more is added."""
        return self._filler.is_full

    def set_range(self, start_offset: int, end_offset: int, number: int = 0) -> None:
        """See `ColumnFiller`."""
        self._ranges.append((number, self._filler.rows))
        self._filler.set_range(start_offset, end_offset)

    def add_plain_batches(
        self, records: memoryview, position: int, *, check_crcs: bool, with_transactions: bool
    ) -> int:
        """See `ColumnFiller`."""
        return self._filler.add_plain_batches(records, position, crc32c if check_crcs else None, with_transactions)

    def take(self) -> RecordColumns:
        """See `ColumnFiller`; the columns are the loops' own memory."""
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
    # `pa.array` would import pandas, for half a second.
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
    """The fastest filler that is installed."""
    if IS_COMPILED:
        return CompiledColumnFiller(max_rows, max_bytes, include_headers=include_headers)
    from klamm.spark.source.numpy_columns import NumpyColumnFiller

    return NumpyColumnFiller(max_rows, max_bytes, include_headers=include_headers)

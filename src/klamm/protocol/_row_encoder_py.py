"""The row encoder in Python, for installations without the compiled module.

`RowEncoder` and `rows_by_partition` behave like those of the same name in `_record_scanner_encode.pxi`; tests compare
the bytes. `batch_building.py` documents the layout of the columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from zlib import crc32

from klamm.protocol.murmur2 import murmur2
from klamm.protocol.varint import encode_varint

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from klamm.protocol.batch_building import BytesColumn, HeadersColumn, TimestampColumn

__all__ = ["EncodedRows", "RowEncoder", "rows_by_partition"]

EncodedRows: TypeAlias = tuple[int, bytes | None, int, int, int, int]
"""The first row that is not encoded, the records, the first timestamp and the highest one; or, with None for the
records, at the end the row that is too large and its size."""

_OUTSIDE: Final = "the bounds of an entry are not inside of its buffer"


class _Entries:
    """A column of bytes."""

    def __init__(self, column: BytesColumn, count: int | None) -> None:
        bounds, data, valid, self._first = column
        if self._first < 0:
            raise ValueError("a column begins before its first entry")
        self._bounds = memoryview(bounds).cast("B")
        whole = len(self._bounds) // 4
        if count is None:
            if not whole:
                raise ValueError("a buffer is shorter than the column")
            count = max(whole - 1 - self._first, 0)
        elif whole < self._first + count + 1:
            raise ValueError("a buffer is shorter than the column")
        self._bounds = self._bounds[: whole * 4].cast("i")
        self._count = count
        self._data = memoryview(data).cast("B")
        self._valid = None if valid is None else memoryview(valid).cast("B")
        if self._valid is not None and len(self._valid) < (self._first + count + 7) // 8:
            raise ValueError("a buffer is shorter than the column")

    def entry(self, index: int) -> bytes | None:
        """Returns an entry. Raises ValueError if its bounds are wrong."""
        if not 0 <= index < self._count:
            raise ValueError(_OUTSIDE)
        index += self._first
        if self._valid is not None and not self._valid[index >> 3] >> (index & 7) & 1:
            return None
        start, end = self._bounds[index], self._bounds[index + 1]
        if not 0 <= start <= end <= len(self._data):
            raise ValueError(_OUTSIDE)
        return bytes(self._data[start:end])


class RowEncoder:
    """Encodes the rows of one table."""

    def __init__(  # noqa: PLR0917 - the signature of the compiled form
        self,
        count: int,
        values: BytesColumn | None,
        keys: BytesColumn | None = None,
        headers: HeadersColumn | None = None,
        timestamps: TimestampColumn | None = None,
        timestamp_ms: int = 0,
    ) -> None:
        if count < 0:
            raise ValueError("a negative number of rows")
        self._count = count
        self._values = None if values is None else _Entries(values, count)
        self._keys = None if keys is None else _Entries(keys, count)
        self._lists: Sequence[int] | None = None
        if headers is not None:
            bounds, valid, self._list_first, header_keys, header_values = headers
            if self._list_first < 0:
                raise ValueError("a column begins before its first entry")
            view = memoryview(bounds).cast("B")
            self._list_valid = None if valid is None else memoryview(valid).cast("B")
            if len(view) // 4 < self._list_first + count + 1 or (
                self._list_valid is not None and len(self._list_valid) < (self._list_first + count + 7) // 8
            ):
                raise ValueError("a buffer is shorter than the column")
            self._lists = view[: len(view) // 4 * 4].cast("i")
            self._header_keys, self._header_values = _Entries(header_keys, None), _Entries(header_values, None)
        self._timestamps: Sequence[int] | None = None
        self._timestamp_ms = timestamp_ms
        if timestamps is not None:
            numbers, first = timestamps
            if first < 0:
                raise ValueError("a column begins before its first entry")
            view = memoryview(numbers).cast("B")
            if len(view) < (first + count) * 8:
                raise ValueError("a buffer is shorter than the column")
            self._timestamps = view[first * 8 : (first + count) * 8].cast("q")

    def place(self, partitions: Buffer, partition_count: int, by_crc32: bool) -> int:
        """Writes the partition of each row with a key whose entry in `partitions` is negative; returns how many others
        are left negative."""
        if partition_count < 1:
            raise ValueError("there are no partitions")
        places = memoryview(partitions).cast("B")
        if len(places) < self._count * 4:
            raise ValueError("a buffer is shorter than the column")
        places = places[: self._count * 4].cast("i")
        left = 0
        for row in range(self._count):
            if places[row] >= 0:
                continue
            try:
                key = None if self._keys is None else self._keys.entry(row)
            except ValueError as error:
                raise ValueError(f"row {row}: {error}") from None
            if key is None or (by_crc32 and not key):
                left += 1
            elif by_crc32:
                places[row] = crc32(key) % partition_count
            else:
                places[row] = (murmur2(key) & 0x7FFFFFFF) % partition_count
        return left

    def encode(self, order: Buffer, first: int, end: int, target_bytes: int, largest_bytes: int) -> EncodedRows:
        """Encodes rows `order[first:end]` until the records would take more than `target_bytes`; at least one."""
        view = memoryview(order).cast("B")
        if first < 0 or end <= first or len(view) < end * 4:
            raise ValueError("a range of rows that does not exist")
        rows = view[: end * 4].cast("i")
        body = bytearray()
        base = highest = 0
        for index in range(first, end):
            row = rows[index]
            if not 0 <= row < self._count:
                raise ValueError(f"row {row}: there is no such row")
            timestamp = self._timestamp_ms if self._timestamps is None else self._timestamps[row]
            if index == first:
                base = highest = timestamp
            try:
                record = b"".join(self._fields(row, _as_int64(timestamp - base), index - first))
            except ValueError as error:
                raise ValueError(f"row {row}: {error}") from None
            record = encode_varint(len(record)) + record
            if len(record) > largest_bytes:
                return 0, None, 0, 0, row, len(record)
            if body and len(body) + len(record) > target_bytes:
                return index, bytes(body), base, highest, 0, 0
            highest = max(highest, timestamp)
            body += record
        return end, bytes(body), base, highest, 0, 0

    def _fields(self, row: int, delta: int, number: int) -> Iterator[bytes]:
        yield b"\0"
        yield encode_varint(delta)
        yield encode_varint(number)
        yield from _field(None if self._keys is None else self._keys.entry(row))
        yield from _field(None if self._values is None else self._values.entry(row))
        begin = end = 0
        if self._lists is not None:
            place = row + self._list_first
            if self._list_valid is None or self._list_valid[place >> 3] >> (place & 7) & 1:
                begin, end = self._lists[place], self._lists[place + 1]
                if not 0 <= begin <= end:
                    raise ValueError(_OUTSIDE)
        yield encode_varint(end - begin)
        for index in range(begin, end):
            key = self._header_keys.entry(index)
            if key is None:
                raise ValueError("a header has no key")
            yield from _field(key)
            yield from _field(self._header_values.entry(index))


def _field(content: bytes | None) -> tuple[bytes, bytes]:
    return (encode_varint(-1), b"") if content is None else (encode_varint(len(content)), content)


def _as_int64(number: int) -> int:
    """Returns the number as 64 bits hold it."""
    return (number + 2**63) % 2**64 - 2**63


def rows_by_partition(partitions: Buffer, count: int, partition_count: int) -> tuple[memoryview, memoryview]:
    """Returns the rows sorted by partition, those of a partition in their order, and where each partition begins."""
    if partition_count < 1:
        raise ValueError("there are no partitions")
    view = memoryview(partitions).cast("B")
    if count < 0 or len(view) < count * 4:
        raise ValueError("a buffer is shorter than the column")
    places = view[: count * 4].cast("i")
    rows: list[list[int]] = [[] for _ in range(partition_count)]
    for row in range(count):
        if not 0 <= places[row] < partition_count:
            raise ValueError(f"row {row}: its partition does not exist")
        rows[places[row]].append(row)
    order, starts = array("i"), array("i", [0])
    for of_partition in rows:
        order.extend(of_partition)
        starts.append(len(order))
    return memoryview(order), memoryview(starts)

"""Turns records into Arrow columns by numpy, for installations of klamm without a compiler.

The records of many batches are concatenated in one buffer. One pass in Python finds the start of each record and reads
only the records' lengths. Numpy does the rest for all records at once: one step decodes the first byte of a varint
field of every record, the next step decodes the second byte of the fields that have one, and so on. Keys and values are
not copied one by one. An Arrow array of all pieces of the buffer (key, gap, value, gap, key …) is made from the
positions alone, without copying, and Arrow's `take` selects the keys or the values.

The layout of a record is in `klamm.protocol.records`: slower code with the same result, the oracle of this module's
tests.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.record_batch import (
    BATCH_HEADER,
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
    batch_crc_is_valid,
)
from klamm.protocol.records import timestamp_overflow
from klamm.protocol.varint import read_varint
from klamm.spark.source.tasks.columns import HEADERS_TYPE, RecordColumns

__all__ = ["NumpyColumnFiller"]

Integers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

# The smallest record has seven bytes: a length and six fields.
_MINIMUM_RECORD_BYTES: Final = 7
_LARGEST: Final = 2**31 - 1
_END: Final = 2**63 - 1
_VARINT_BITS: Final = 28
_VARLONG_BITS: Final = 63
# The most milliseconds, before or after 1970, that fit into 64 bits as microseconds.
_LATEST_MS: Final = (2**63 - 1) // 1000


class _Facts(NamedTuple):
    """The common properties of some records of one batch."""

    records: int
    base_offset: int
    base_timestamp: int
    append_time: int
    is_append_time: bool
    start_offset: int
    end_offset: int
    range_number: int


class NumpyColumnFiller:
    """A `klamm.spark.source.tasks.columns.ColumnFiller`. Records outside the range count as rows until `take`."""

    def __init__(self, max_rows: int, max_bytes: int, *, include_headers: bool) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self._include_headers = include_headers
        self._range = (0, _END, 0)
        self._begin()

    def _begin(self) -> None:
        self._parts: list[bytes] = []
        self._facts: list[_Facts] = []
        self._starts: list[int] = []
        self._sizes: list[int] = []
        self._bytes = 0
        self.is_full = False

    @property
    def rows(self) -> int:
        """The number of records in the table."""
        return len(self._starts)

    def set_range(self, start_offset: int, end_offset: int, number: int = 0) -> None:
        """Implements `ColumnFiller`."""
        self._range = (start_offset, end_offset, number)

    def add_plain_batches(
        self, records: memoryview, position: int, *, check_crcs: bool, with_transactions: bool
    ) -> int:
        """Implements `ColumnFiller`."""
        end = len(records)
        start_offset, end_offset, _ = self._range
        unusual = COMPRESSION_MASK | CONTROL_MASK | (0 if with_transactions else TRANSACTIONAL_MASK)
        while not self.is_full and position <= end - HEADER_SIZE_BYTES:
            header = BatchHeader._make(BATCH_HEADER.unpack_from(records, position))
            size = header.batch_length + LOG_OVERHEAD_BYTES
            if header.magic != MAGIC or not HEADER_SIZE_BYTES <= size <= end - position or header.attributes & unusual:
                break
            if header.base_offset >= end_offset:
                return end
            if header.last_offset < start_offset:
                position += size
                continue
            if header.records_count > self._max_rows - self.rows or size > self._max_bytes - self._bytes:
                self.is_full = self.rows > 0 and header.records_count <= self._max_rows and size <= self._max_bytes
                break
            if check_crcs and not batch_crc_is_valid(records, position, header):
                break
            append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_MASK else None
            body = records[position + HEADER_SIZE_BYTES : position + size]
            self.add_records(
                body,
                0,
                header.records_count,
                base_offset=header.base_offset,
                base_timestamp=header.base_timestamp,
                append_time=append_time,
            )
            position += size
        return position

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
        """Implements `ColumnFiller`."""
        data = bytes(body[position:])
        reached, taken = self._find_records(data, count)
        self._parts.append(data[:reached])
        self._facts.append(
            _Facts(
                taken,
                base_offset,
                base_timestamp,
                -1 if append_time is None else append_time,
                append_time is not None,
                *self._range,
            )
        )
        self._bytes += reached
        self.is_full = taken < count or self.rows >= self._max_rows or self._bytes >= self._max_bytes
        return position + reached, count - taken

    def _find_records(self, data: bytes, count: int) -> tuple[int, int]:
        """Notes the start of each record until the table is full. Returns the position after the last one, and their
        number."""
        if not 0 <= count <= len(data) // _MINIMUM_RECORD_BYTES:
            raise _invalid(f"{count} records in {len(data)} bytes")
        base, end, room = self._bytes, len(data), self._max_bytes - self._bytes
        position = 0
        add_start, add_size = self._starts.append, self._sizes.append
        is_empty = not self._starts
        taken, limit = 0, min(count, self._max_rows - self.rows)
        try:
            while taken < limit:
                size, behind = data[position], position + 1
                if size < 0x80:
                    size = size >> 1 if not size & 1 else -1
                else:
                    size, behind = read_varint(data, position)
                if not 0 <= size <= end - behind:
                    raise _invalid(f"a record of {size} bytes in {end - behind} bytes")
                if behind + size > room and not is_empty:
                    break
                is_empty = False
                add_start(base + behind)
                add_size(size)
                position = behind + size
                taken += 1
        except (IndexError, MalformedMessage):
            raise _invalid("a record ends within a field") from None
        if taken == count and position != end:
            raise _invalid(f"{end - position} bytes follow the last of {count} records")
        return position, taken

    def take(self) -> RecordColumns:
        """Implements `ColumnFiller`."""
        try:
            columns = self._decode()
        except (IndexError, MalformedMessage):
            raise _invalid("a record ends within a field") from None
        self._begin()
        return columns

    def _decode(self) -> RecordColumns:
        data = b"".join(self._parts)
        starts = np.array(self._starts, np.int64)
        ends = starts + np.array(self._sizes, np.int64)
        facts = np.array(self._facts, np.int64).reshape(-1, len(_Facts._fields))
        base_offsets, base_timestamps, append_times, is_append_time, range_starts, range_ends, range_numbers = (
            np.repeat(facts[:, 1:], facts[:, 0], axis=0).T
        )
        fields = _Fields.found(data, starts, ends)
        offsets = base_offsets + fields.offset_deltas
        chosen = np.flatnonzero((offsets >= range_starts) & (offsets < range_ends))
        timestamps = np.where(is_append_time != 0, append_times, base_timestamps + fields.timestamp_deltas)[chosen]
        _check_times(timestamps, offsets[chosen])
        pieces = fields.pieces(data)
        return RecordColumns(
            len(chosen),
            _take(pieces, chosen * 4, fields.key_lengths[chosen] < 0),
            _take(pieces, chosen * 4 + 2, fields.value_lengths[chosen] < 0),
            _arrow_array(pa.int64(), offsets[chosen]),
            _arrow_array(pa.timestamp("us", tz="UTC"), timestamps * 1000),
            _arrow_array(pa.int32(), is_append_time[chosen].astype(np.int32)),
            _headers(data, fields.value_ends, ends, chosen) if self._include_headers else None,
            _runs(range_numbers[chosen]),
        )


class _Fields(NamedTuple):
    """The fields of all records."""

    timestamp_deltas: Integers
    offset_deltas: Integers
    key_lengths: Integers
    key_starts: Integers
    key_ends: Integers
    value_lengths: Integers
    value_starts: Integers
    value_ends: Integers

    @classmethod
    def found(cls, data: bytes, starts: Integers, ends: Integers) -> _Fields:
        """Decodes the records between these positions, which begin with the attributes. Raises IndexError,
        `KafkaError`."""
        buffer = np.frombuffer(data, np.uint8)
        timestamp_deltas, positions = _varints(buffer, starts + 1, _VARLONG_BITS)
        offset_deltas, positions = _varints(buffer, positions, _VARINT_BITS)
        key_lengths, key_starts = _varints(buffer, positions, _VARINT_BITS)
        key_ends = key_starts + np.maximum(key_lengths, 0)
        _check_inside(key_ends, ends)
        value_lengths, value_starts = _varints(buffer, key_ends, _VARINT_BITS)
        value_ends = value_starts + np.maximum(value_lengths, 0)
        _check_inside(value_ends + 1, ends)
        if np.any((buffer[value_ends] == 0) & (value_ends + 1 != ends)):
            raise _invalid("a record does not end where its length says")
        return cls(
            timestamp_deltas,
            offset_deltas,
            key_lengths,
            key_starts,
            key_ends,
            value_lengths,
            value_starts,
            value_ends,
        )

    def pieces(self, data: bytes) -> pa.Array[Any]:
        """Returns the buffer as one Arrow array with (key, gap, value, gap) for each record."""
        count = len(self.key_starts)
        bounds = np.empty(4 * count + 1, np.int32)
        bounds[0:-1:4] = self.key_starts
        bounds[1::4] = self.key_ends
        bounds[2::4] = self.value_starts
        bounds[3::4] = self.value_ends
        bounds[-1] = len(data)
        return pa.Array.from_buffers(pa.binary(), 4 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)])


def _varints(buffer: _Bytes, positions: Integers, maximum_bits: int) -> tuple[Integers, Integers]:
    """Returns the zigzag varint at each position, and the position after it. Raises IndexError beyond the buffer."""
    byte = buffer[positions]
    values = (byte & 0x7F).astype(np.int64)
    behind = positions + 1
    unfinished = np.flatnonzero(byte & 0x80)
    shift = 7
    while unfinished.size:
        if shift > maximum_bits:
            raise _invalid("a varint is longer than any number")
        byte = buffer[behind[unfinished]]
        values[unfinished] |= (byte & 0x7F).astype(np.int64) << shift
        behind[unfinished] += 1
        unfinished = unfinished[(byte & 0x80) != 0]
        shift += 7
    if maximum_bits == _VARINT_BITS:
        values &= 0xFFFF_FFFF
    return (values >> 1 & 0x7FFF_FFFF_FFFF_FFFF) ^ -(values & 1), behind


def _check_inside(field_ends: Integers, ends: Integers) -> None:
    if np.any(field_ends > ends):
        raise _invalid("a record ends within a field")


def _check_times(timestamps: Integers, offsets: Integers) -> None:
    overflowing = np.flatnonzero((timestamps > _LATEST_MS) | (timestamps < -_LATEST_MS))
    if overflowing.size:
        first = overflowing[0]
        raise timestamp_overflow(int(offsets[first]), int(timestamps[first]))


def _take(pieces: pa.Array[Any], indices: Integers, is_null: npt.NDArray[np.bool_]) -> pa.Array[Any]:
    validity = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if is_null.any() else None
    return pieces.take(_arrow_array(pa.int64(), indices, validity))


def _arrow_array(kind: pa.DataType, numbers: npt.NDArray[Any], validity: pa.Buffer | None = None) -> pa.Array[Any]:
    # Shares the memory. `pa.array` would import pandas, which takes half a second.
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(np.ascontiguousarray(numbers))])


def _headers(data: bytes, starts: Integers, ends: Integers, chosen: Integers) -> pa.Array[Any]:
    """Decodes headers record by record, since few records have headers and their numbers differ."""
    lists: list[list[dict[str, str | bytes | None]] | None] = [None] * len(chosen)
    for row, record in enumerate(chosen.tolist()):
        start = int(starts[record])
        if data[start]:
            lists[row] = _read_headers(data, start, int(ends[record])) or None
    if not any(lists):
        return pa.nulls(len(chosen), HEADERS_TYPE)
    return pa.array(lists, HEADERS_TYPE)


def _read_headers(data: bytes, position: int, end: int) -> list[dict[str, str | bytes | None]]:
    count, position = read_varint(data, position)
    # A header has at least the lengths of its key and value.
    if not 0 <= count <= (end - position) // 2:
        raise _invalid(f"{count} headers in {end - position} bytes")
    headers: list[dict[str, str | bytes | None]] = []
    for _ in range(count):
        length, position = read_varint(data, position)
        if not 0 <= length <= end - position:
            raise _invalid("a header's key reaches beyond its record, or is missing")
        # Java reads malformed UTF-8 as replacement characters, too.
        key = data[position : position + length].decode("utf-8", "replace")
        length, position = read_varint(data, position + length)
        if length > end - position:
            raise _invalid("a header's value reaches beyond its record")
        headers.append({"key": key, "value": None if length < 0 else data[position : position + length]})
        position += max(length, 0)
    if position != end:
        raise _invalid("a record does not end where its length says")
    return headers


def _runs(numbers: Integers) -> tuple[tuple[int, int], ...]:
    """Returns each number and its count of consecutive occurrences."""
    firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
    counts = np.diff(firsts, append=len(numbers))
    return tuple(zip(numbers[firsts].tolist(), counts.tolist(), strict=True))


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)

"""Record batches turned into Arrow columns, without an object per record.

Theory of operation. The records of many batches are laid one after the other in one buffer (decompressed where they
were compressed). One pass in Python finds where each record begins: it only reads the records' lengths. All else is
done for all records at once by numpy: each varint field is decoded for every record in one step, one step more for
those that need a second byte, and so on. Keys and values are not cut out one by one: an Arrow array of all the pieces
of the buffer (key, gap, value, gap, key …) is made from the positions alone, without copying, and Arrow's `take`
picks the pieces that are keys, or values.

The layout of a record is in `klamm.protocol.records`, which is this module's slow twin and oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from klamm.protocol.compression import decompress
from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.record_batch import (
    COMPRESSION_MASK,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    CorruptRecord,
)
from klamm.protocol.varint import read_varint

__all__ = ["ClosedBatch", "HEADERS_TYPE", "RecordColumns", "arrow_array", "open_batches", "repeated_text"]

HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)

Integers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]

# The smallest record has seven bytes: a length and six fields.
_MINIMUM_RECORD_BYTES: Final = 7
# Arrow's plain binary arrays count bytes with 32 bits; no fetch comes near unless its records were compressed.
_MAXIMUM_BUFFER_BYTES: Final = 2**31 - 1
_MAXIMUM_VARINT_BITS: Final = 63


class ClosedBatch(NamedTuple):
    """A batch as it was fetched: its header and its bytes, header included."""

    header: BatchHeader
    data: memoryview


class RecordColumns(NamedTuple):
    """The records of some batches, in the order of their offsets; all columns are equally long."""

    keys: pa.Array[Any]
    values: pa.Array[Any]
    offsets: Integers
    timestamps_ms: Integers
    timestamp_types: npt.NDArray[np.int32]
    headers: pa.Array[Any] | None

    def __len__(self) -> int:
        return len(self.offsets)


def open_batches(
    batches: Sequence[ClosedBatch], start_offset: int, end_offset: int, *, include_headers: bool = False
) -> RecordColumns:
    """The records of the batches whose offset is in [start_offset, end_offset).

    The caller leaves out control batches and those of aborted transactions. `headers` is None unless asked for; in it,
    a record without headers has null, as in Spark's own source.
    Raises `KafkaError`: CORRUPT_MESSAGE for bytes that are no records of magic 2, UNSUPPORTED_FOR_MESSAGE_FORMAT for
    magic 0 and 1.
    """
    try:
        return _decode(_lay_out(batches), start_offset, end_offset, include_headers)
    except (IndexError, MalformedMessage):
        raise CorruptRecord("a record reaches beyond its batch") from None


class _Layout(NamedTuple):
    """The records of all batches in one buffer; the arrays have an element for each record."""

    data: bytes
    starts: Integers
    """Where each record begins, behind its length."""
    ends: Integers
    base_offsets: Integers
    base_timestamps: Integers
    append_times: Integers
    is_append_time: npt.NDArray[np.bool_]


def _lay_out(batches: Sequence[ClosedBatch]) -> _Layout:
    payloads: list[bytes] = []
    starts: list[int] = []
    sizes: list[int] = []
    facts: list[tuple[int, int, int, int, int]] = []
    base = 0
    for header, data in batches:
        # Taken apart once: batches of a single record are common, and each property would cost as much as the record.
        base_offset, batch_length, _, magic, _, attributes, _, base_timestamp, max_timestamp, _, _, _, count = header
        if magic != MAGIC:
            raise KafkaError(
                ErrorCode.unsupported_for_message_format,
                f"records of magic {magic} are not supported, only those of magic {MAGIC} (Kafka 0.11 and later)",
            )
        payload = bytes(data[HEADER_SIZE_BYTES : batch_length + LOG_OVERHEAD_BYTES])
        if attributes & COMPRESSION_MASK:
            payload = decompress(header.compression, payload)
        _find_records(payload, count, base, starts, sizes)
        payloads.append(payload)
        facts.append((count, base_offset, base_timestamp, max_timestamp, attributes & TIMESTAMP_TYPE_MASK))
        base += len(payload)
    if base > _MAXIMUM_BUFFER_BYTES:
        raise CorruptRecord(f"{len(batches)} batches open to {base} bytes, more than fit into one Arrow array")
    begins = np.array(starts, np.int64)
    of_batches = np.array(facts, np.int64).reshape(-1, 5)
    of_records = np.repeat(of_batches[:, 1:], of_batches[:, 0], axis=0)
    return _Layout(
        b"".join(payloads),
        begins,
        begins + np.array(sizes, np.int64),
        of_records[:, 0],
        of_records[:, 1],
        of_records[:, 2],
        of_records[:, 3] != 0,
    )


def _find_records(payload: bytes, count: int, base: int, starts: list[int], sizes: list[int]) -> None:
    if not 0 <= count <= len(payload) // _MINIMUM_RECORD_BYTES:
        raise CorruptRecord(f"{count} records in {len(payload)} bytes")
    position = 0
    add_start, add_size = starts.append, sizes.append
    try:
        for _ in range(count):
            size = payload[position]
            position += 1
            if size >= 0x80:
                size = (size & 0x7F) | payload[position] << 7
                position += 1
                if size >= 0x4000:
                    size, position = read_varint(payload, position - 2)
                    size <<= 1
            # Zigzag: odd stands for negative, which fails the comparison at the end.
            size >>= 1
            add_start(base + position)
            add_size(size)
            position += size
    except IndexError:
        raise CorruptRecord("a record reaches beyond its batch") from None
    if position != len(payload):
        raise CorruptRecord(f"{count} records take {position} of {len(payload)} bytes")


def _decode(layout: _Layout, start_offset: int, end_offset: int, include_headers: bool) -> RecordColumns:
    data, ends = layout.data, layout.ends
    buffer = np.frombuffer(data, np.uint8)
    timestamp_deltas, positions = _varints(buffer, layout.starts + 1)
    offset_deltas, positions = _varints(buffer, positions)
    key_lengths, key_starts = _varints(buffer, positions)
    key_ends = key_starts + np.maximum(key_lengths, 0)
    _check_spans(key_lengths, key_ends, ends)
    value_lengths, value_starts = _varints(buffer, key_ends)
    value_ends = value_starts + np.maximum(value_lengths, 0)
    _check_spans(value_lengths, value_ends, ends)
    header_counts, positions = _varints(buffer, value_ends)
    without_headers = header_counts == 0
    if np.any(positions[without_headers] != ends[without_headers]) or np.any(header_counts < 0):
        raise CorruptRecord("a record does not end where its length says")

    offsets = layout.base_offsets + offset_deltas
    timestamps = np.where(layout.is_append_time, layout.append_times, layout.base_timestamps + timestamp_deltas)
    chosen = np.flatnonzero((offsets >= start_offset) & (offsets < end_offset))
    pieces = _pieces(data, key_starts, key_ends, value_starts, value_ends)
    headers = None
    if include_headers:
        headers = _headers(data, positions, ends, header_counts, chosen)
    return RecordColumns(
        _take(pieces, chosen * 4, key_lengths[chosen] < 0),
        _take(pieces, chosen * 4 + 2, value_lengths[chosen] < 0),
        offsets[chosen],
        timestamps[chosen],
        layout.is_append_time[chosen].astype(np.int32),
        headers,
    )


def _varints(buffer: _Bytes, positions: Integers) -> tuple[Integers, Integers]:
    """The zigzag varint at each position, and the position behind it. Raises IndexError beyond the buffer."""
    byte = buffer[positions]
    values = (byte & 0x7F).astype(np.int64)
    behind = positions + 1
    unfinished = np.flatnonzero(byte & 0x80)
    shift = 7
    while unfinished.size:
        if shift > _MAXIMUM_VARINT_BITS:
            raise CorruptRecord("a varint has more than ten bytes")
        byte = buffer[behind[unfinished]]
        values[unfinished] |= (byte & 0x7F).astype(np.int64) << shift
        behind[unfinished] += 1
        unfinished = unfinished[(byte & 0x80) != 0]
        shift += 7
    return (values >> 1 & 0x7FFF_FFFF_FFFF_FFFF) ^ -(values & 1), behind


def _check_spans(lengths: Integers, span_ends: Integers, ends: Integers) -> None:
    if np.any(lengths < -1) or np.any(span_ends > ends) or np.any(span_ends < 0):
        raise CorruptRecord("a key or a value reaches beyond its record")


def _pieces(
    data: bytes, key_starts: Integers, key_ends: Integers, value_starts: Integers, value_ends: Integers
) -> pa.Array[Any]:
    """The buffer as one Arrow array of (key, gap, value, gap) for each record."""
    count = len(key_starts)
    bounds = np.empty(4 * count + 1, np.int32)
    bounds[0:-1:4] = key_starts
    bounds[1::4] = key_ends
    bounds[2::4] = value_starts
    bounds[3::4] = value_ends
    bounds[-1] = len(data)
    return pa.Array.from_buffers(pa.binary(), 4 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)])


def _take(pieces: pa.Array[Any], indices: Integers, is_null: npt.NDArray[np.bool_]) -> pa.Array[Any]:
    validity = pa.py_buffer(np.packbits(~is_null, bitorder="little")) if is_null.any() else None
    return pieces.take(arrow_array(pa.int64(), indices, validity))


def arrow_array(kind: pa.DataType, numbers: npt.NDArray[Any], validity: pa.Buffer | None = None) -> pa.Array[Any]:
    """The numbers as an Arrow array over the same memory; `pa.array` would import pandas, for half a second."""
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(np.ascontiguousarray(numbers))])


def repeated_text(text: str, count: int) -> pa.Array[Any]:
    """A column with the same text in every row."""
    encoded = text.encode()
    bounds = np.arange(count + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(bounds), pa.py_buffer(encoded * count)])


def _headers(data: bytes, starts: Integers, ends: Integers, counts: Integers, chosen: Integers) -> pa.Array[Any]:
    """Headers are rare and ragged: those records that have some are read one by one."""
    rows = np.flatnonzero(counts[chosen]).tolist()
    if not rows:
        return pa.nulls(len(chosen), HEADERS_TYPE)
    lists: list[list[dict[str, str | bytes | None]] | None] = [None] * len(chosen)
    for row in rows:
        record = chosen[row]
        lists[row] = _read_headers(data, int(starts[record]), int(ends[record]), int(counts[record]))
    return pa.array(lists, HEADERS_TYPE)


def _read_headers(data: bytes, position: int, end: int, count: int) -> list[dict[str, str | bytes | None]]:
    headers: list[dict[str, str | bytes | None]] = []
    for _ in range(count):
        key_length, position = read_varint(data, position)
        if not 0 <= key_length <= end - position:
            raise CorruptRecord("a header's key reaches beyond its record")
        # Java reads malformed UTF-8 as replacement characters, too.
        key = data[position : position + key_length].decode("utf-8", "replace")
        value_length, position = read_varint(data, position + key_length)
        if not -1 <= value_length <= end - position:
            raise CorruptRecord("a header's value reaches beyond its record")
        value = None if value_length < 0 else data[position : position + value_length]
        position += max(value_length, 0)
        headers.append({"key": key, "value": value})
    if position != end:
        raise CorruptRecord("a record does not end where its length says")
    return headers

"""The loops of the record scanner in Python, for installations without the compiled module.

Each function behaves like the one of the same name in `_record_scanner.pyx`; tests compare the two.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Final

from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.types import NO_TIMESTAMP
from klamm.protocol.varint import encode_varint, read_varint, read_varlong

if TYPE_CHECKING:
    from klamm.protocol.record_scanner import RecordQuery, RecordSpans

__all__ = ["RECORDS_AT_ONCE", "OffsetTable", "copy_kept", "count_kept", "find_batches", "find_records", "scan_body"]

RECORDS_AT_ONCE: Final[int] = 200
"""The number of records for one call of `find_records`. This form holds the interpreter's lock, so a call should take
about half a millisecond. The compiled form releases the lock and reads more records in a call."""

_NULL: Final = -1

# Fields of a batch's header: base offset, batch length, magic, last offset delta.
_EXTENT: Final = Struct(">qi4xb6xi")
_HEADER_SIZE_BYTES: Final = 61
_LOG_OVERHEAD_BYTES: Final = 12
_MAGIC: Final = 2


def find_batches(records: bytes | bytearray | memoryview, offset: int) -> tuple[int, int, int]:
    """Finds the run of whole batches of magic 2 at the start of `records`; leaves out batches that end before `offset`.

    Returns the start of the first remaining batch, the end of the run, and the first offset after the run: -1 if no
    batch remains.
    """
    position, start, next_offset = 0, -1, -1
    end = len(records)
    while position <= end - _HEADER_SIZE_BYTES:
        base_offset, batch_length, magic, last_offset_delta = _EXTENT.unpack_from(records, position)
        size = batch_length + _LOG_OVERHEAD_BYTES
        if magic != _MAGIC or not _HEADER_SIZE_BYTES <= size <= end - position:
            break
        behind = _as_int64(base_offset + last_offset_delta + 1)
        if behind > offset:
            if start < 0:
                start = position
            next_offset = behind
        position += size
    return position if start < 0 else start, position, next_offset


def scan_body(body: memoryview, count: int) -> tuple[memoryview, ...]:  # noqa: PLR0912, PLR0915 - in line for speed
    """Returns the arrays of `RecordSpans`, in its order. Raises `KafkaError` (INVALID_RECORD) for malformed records."""
    end = len(body)
    # The smallest record has seven bytes: a length and six fields.
    if not 0 <= count <= end // 7:
        raise _invalid(f"{count} records in {end} bytes")
    data = bytes(body)  # reading single bytes is a third faster than from a memoryview
    offset_deltas, timestamp_deltas, record_bounds = array("i"), array("q"), array("i", (0,))
    key_starts, key_ends = array("i"), array("i")
    value_starts, value_ends, headers_starts = array("i"), array("i"), array("i")
    position = 0
    try:
        for _ in range(count):
            byte = data[position]
            if byte < 0x80 and not byte & 1:
                position += 1
                length = byte >> 1
            else:
                length, position = read_varint(data, position)
            record_end = position + length
            if length < 0 or record_end > end:
                raise _invalid(f"a record of {length} bytes in {end - position} bytes")

            byte = data[position + 1]
            if byte < 0x80:
                position += 2
                timestamp_deltas.append((byte >> 1) ^ -(byte & 1))
            else:
                number, position = read_varlong(data, position + 1)
                timestamp_deltas.append(number)

            byte = data[position]
            if byte < 0x80:
                position += 1
                offset_deltas.append((byte >> 1) ^ -(byte & 1))
            else:
                number, position = read_varint(data, position)
                offset_deltas.append(number)

            byte = data[position]
            if byte < 0x80:
                position += 1
                length = (byte >> 1) ^ -(byte & 1)
            else:
                length, position = read_varint(data, position)
            key_starts.append(position)
            if length >= 0:
                position += length
                if position > record_end:
                    raise _invalid("a record ends within its key")
                key_ends.append(position)
            else:
                key_ends.append(_NULL)

            byte = data[position]
            if byte < 0x80:
                position += 1
                length = (byte >> 1) ^ -(byte & 1)
            else:
                length, position = read_varint(data, position)
            value_starts.append(position)
            if length >= 0:
                position += length
                if position > record_end:
                    raise _invalid("a record ends within its value")
                value_ends.append(position)
            else:
                value_ends.append(_NULL)

            headers_starts.append(position)
            position = _skip_headers(data, position, record_end) if data[position] else position + 1
            if position != record_end:
                raise _invalid(f"a record ends {position - record_end} bytes after its length says")
            record_bounds.append(record_end)
    except (IndexError, MalformedMessage):
        raise _invalid("a record ends within a field") from None
    if position != end:
        raise _invalid(f"{end - position} bytes follow the last of {count} records")
    return (
        memoryview(offset_deltas),
        memoryview(timestamp_deltas),
        memoryview(record_bounds),
        memoryview(key_starts),
        memoryview(key_ends),
        memoryview(value_starts),
        memoryview(value_ends),
        memoryview(headers_starts),
    )


def _skip_headers(data: bytes | bytearray | memoryview, position: int, end: int) -> int:
    count, position = read_varint(data, position)
    # A header has at least the lengths of its key and value.
    if not 0 <= count <= (end - position) // 2:
        raise _invalid(f"{count} headers in {end - position} bytes")
    for _ in range(count):
        length, position = read_varint(data, position)
        if length < 0:
            raise _invalid("a header without a key")
        length, position = read_varint(data, position + length)
        if length > 0:
            position += length
    return position


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def find_records(  # noqa: PLR0912, PLR0915, PLR0917 - the signature of the compiled form; in line for speed
    body: bytes | bytearray | memoryview,
    query: RecordQuery,
    position: int,
    index: int,
    end_index: int,
    max_found: int,
) -> tuple[int, int, list[tuple[int, int, int, int, int]], str | None]:
    """Walks over the records of a body from record `index`, which begins at `position`, up to `end_index`.

    Stops early after `max_found` records that match the query, and at the first malformed record. Returns the position
    and the index of the next record; index, offset delta, timestamp, key length and value length (-1 for null) of each
    record found; and the error in the next record, None if that record was not read.
    """
    found: list[tuple[int, int, int, int, int]] = []
    data = body if isinstance(body, bytes) else memoryview(body)
    end = len(data)
    base_timestamp, append_time = query.base_timestamp, query.append_time
    oldest, newest, is_inside = query.oldest, query.newest, query.is_inside
    without_key, out_of_sequence = query.without_key, query.out_of_sequence
    first_offset_delta = query.first_offset_delta
    try:
        while index < end_index and len(found) < max_found:
            byte = data[position]
            if byte < 0x80 and not byte & 1:
                place = position + 1
                length = byte >> 1
            else:
                length, place = read_varint(data, position)
            record_end = place + length
            if length < 0 or record_end > end:
                return position, index, found, "its length is negative or larger than the batch"

            byte = data[place + 1]
            if byte < 0x80:
                place += 2
                timestamp = (byte >> 1) ^ -(byte & 1)
            else:
                timestamp, place = read_varlong(data, place + 1)
            offset_delta, place = read_varint(data, place)

            byte = data[place]
            if byte < 0x80:
                place += 1
                key_length = (byte >> 1) ^ -(byte & 1)
            else:
                key_length, place = read_varint(data, place)
            if key_length >= 0:
                place += key_length
            else:
                key_length = _NULL

            byte = data[place]
            if byte < 0x80:
                place += 1
                value_length = (byte >> 1) ^ -(byte & 1)
            else:
                value_length, place = read_varint(data, place)
            if value_length >= 0:
                place += value_length
            else:
                value_length = _NULL

            place = _skip_headers(data, place, record_end) if data[place] else place + 1
            if place != record_end:
                return position, index, found, "it does not end where its length says"
            timestamp = _as_int64(base_timestamp + timestamp) if append_time is None else append_time
            is_between = oldest <= timestamp <= newest
            if offset_delta >= first_offset_delta and (
                (is_between if is_inside else not is_between and timestamp != NO_TIMESTAMP)
                or (without_key and key_length == _NULL)
                or (out_of_sequence and offset_delta != index)
            ):
                found.append((index, offset_delta, timestamp, key_length, value_length))
            position = record_end
            index += 1
    except (IndexError, MalformedMessage):
        return position, index, found, "it ends within a field"
    except KafkaError as error:
        return position, index, found, error.message
    return position, index, found, None


def count_kept(spans: RecordSpans, keep: bytes | bytearray | memoryview) -> tuple[int, bool]:
    """Returns the number of kept records, and whether one of them has no value."""
    kept = 0
    has_tombstone = False
    for mark, value_end in zip(keep, spans.value_ends, strict=True):
        if mark:
            kept += 1
            if value_end == _NULL:
                has_tombstone = True
    return kept, has_tombstone


def copy_kept(
    spans: RecordSpans,
    keep: bytes | bytearray | memoryview,
    old_base_timestamp: int,
    base_timestamp: int | None,
    append_time: int | None,
) -> tuple[bytes, int, int]:
    """Encodes the kept records with another base timestamp; None takes the timestamp of the first kept record.

    Returns the bytes, the base timestamp and the largest timestamp. With `append_time` all records have that timestamp.
    The unused attributes of records become 0, as in Kafka.
    """
    body = spans.body
    bounds, timestamp_deltas, offset_deltas = spans.record_bounds, spans.timestamp_deltas, spans.offset_deltas
    key_starts, key_ends = spans.key_starts, spans.key_ends
    payload = bytearray()
    max_timestamp: int = NO_TIMESTAMP
    for index, mark in enumerate(keep):
        if not mark:
            continue
        timestamp = append_time
        if timestamp is None:
            timestamp = _as_int64(old_base_timestamp + timestamp_deltas[index])
        if base_timestamp is None:
            base_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        key_start, key_end = key_starts[index], key_ends[index]
        start = b"\x00" + encode_varint(_as_int64(timestamp - base_timestamp)) + encode_varint(offset_deltas[index])
        start += encode_varint(key_end - key_start if key_end != _NULL else _NULL)
        tail = body[key_start : bounds[index + 1]]
        payload += encode_varint(len(start) + len(tail))
        payload += start
        payload += tail
    assert base_timestamp is not None, "no base timestamp was kept"
    return bytes(payload), base_timestamp, max_timestamp


def _as_int64(number: int) -> int:
    """Returns the number wrapped to 64 bits: sums of a hostile batch's timestamps wrap, as in Kafka."""
    return (number + 0x8000_0000_0000_0000 & 0xFFFF_FFFF_FFFF_FFFF) - 0x8000_0000_0000_0000


class OffsetTable:
    """The latest offset of each key, identified by its 128-bit hash, in bounded memory.

    The hashes are keyed with `secret` (16 random bytes), so that no client can construct keys with the same hash.
    Not thread-safe. Source of the rules: `SkimpyOffsetMap`, `Cleaner.buildOffsetMapForSegment` and
    `Cleaner.shouldRetainRecord` of Apache Kafka 4.3.
    """

    BYTES_PER_ENTRY: Final[int] = 200
    """A hash, a number, and their entry in a dict."""

    def __init__(self, memory_bytes: int, secret: bytes) -> None:
        """Creates an empty table that may grow to `memory_bytes`. Raises ValueError if that is less than one entry, or
        if the secret does not have 16 bytes."""
        if len(secret) != 16:
            raise ValueError("the secret has 16 bytes")
        self.slots = memory_bytes // self.BYTES_PER_ENTRY
        """The number of entries that fit into the memory."""
        if self.slots < 1:
            raise ValueError(f"{memory_bytes} bytes hold no entry")
        self._secret = secret
        self._offsets: dict[bytes, int] = {}

    def __len__(self) -> int:
        """Returns the number of keys in the table."""
        return len(self._offsets)

    @property
    def memory_bytes(self) -> int:
        """The approximate memory of the current entries."""
        return len(self._offsets) * self.BYTES_PER_ENTRY

    def clear(self) -> None:
        """Removes all keys, and frees their memory."""
        self._offsets.clear()

    def put_records(self, spans: RecordSpans, base_offset: int, *, start_offset: int, max_entries: int) -> int:
        """Stores the offset of every record that has a key and an offset of at least `start_offset`.

        Stops at the first such record when the table has `max_entries` keys (at most `slots`), even if the record's key
        is in the table, as in Kafka. Returns the number of records that were processed.
        """
        body, key_starts, offset_deltas = spans.body, spans.key_starts, spans.offset_deltas
        offsets, secret = self._offsets, self._secret
        limit = min(max_entries, self.slots)
        start_offset = max(start_offset, 0)
        for index, key_end in enumerate(spans.key_ends):
            offset = base_offset + offset_deltas[index]
            if key_end == _NULL or offset < start_offset:
                continue
            if len(offsets) >= limit:
                return index
            digest = blake2b(body[key_starts[index] : key_end], digest_size=16, key=secret).digest()
            offsets[digest] = offset
        return spans.count

    def latest_offset(self, key: bytes | bytearray | memoryview) -> int:
        """Returns the stored offset of this key, -1 for none."""
        return self._offsets.get(blake2b(key, digest_size=16, key=self._secret).digest(), -1)

    def mark_kept(
        self,
        spans: RecordSpans,
        base_offset: int,
        keep: bytearray | memoryview,
        *,
        end_offset: int,
        keep_tombstones: bool,
    ) -> tuple[int, int]:
        """Writes a 1 into `keep` for each record to be kept, a 0 for all others.

        Keeps all records from `end_offset` on, which are not in the table. Below `end_offset` it keeps the records
        whose key has no later offset in the table, except tombstones if `keep_tombstones` is false. Records without a
        key are dropped there. Returns the number of kept records, and of those dropped because they have no key.
        """
        body, key_starts, offset_deltas, value_ends = (
            spans.body,
            spans.key_starts,
            spans.offset_deltas,
            spans.value_ends,
        )
        get, secret = self._offsets.get, self._secret
        kept = without_key = 0
        for index, key_end in enumerate(spans.key_ends):
            offset = base_offset + offset_deltas[index]
            if offset >= end_offset:
                is_kept = True
            elif key_end == _NULL:
                is_kept = False
                without_key += 1
            elif value_ends[index] == _NULL and not keep_tombstones:
                is_kept = False
            else:
                digest = blake2b(body[key_starts[index] : key_end], digest_size=16, key=secret).digest()
                is_kept = offset >= get(digest, -1)
            keep[index] = is_kept
            kept += is_kept
        return kept, without_key

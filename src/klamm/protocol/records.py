"""Decodes a batch (magic 2) into records, and encodes records into a batch.

The layout of a record; all numbers are zigzag varints if nothing else is given:

    length            bytes that follow
    attributes        one byte, unused
    timestamp delta   to the batch's base timestamp
    offset delta      to the batch's base offset
    key length        -1 for null; then the key
    value length      -1 for null; then the value
    headers count     then for each: key length, key, value length (-1 for null), value

The broker decodes a batch's records only if it has to; the header is in `record_batch`.
Source: `org.apache.kafka.common.record.internal.DefaultRecord` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from klamm.protocol.compression import DEFAULT_MAX_BYTES, Compression, compress, decompress
from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.record_batch import (
    BATCH_HEADER,
    CONTROL_MASK,
    HEADER_SIZE_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_MASK,
    BatchHeader,
    CorruptRecord,
    batch_crc_is_valid,
    iterate_batches,
    pack_header,
    read_batch_header,
    restamp,
)
from klamm.protocol.types import NO_TIMESTAMP, LeaderEpoch, Millis, Offset
from klamm.protocol.varint import encode_varint, read_varint, read_varlong

__all__ = [
    "BATCH_HEADER",
    "BatchHeader",
    "CorruptRecord",
    "FramedRecords",
    "Header",
    "Record",
    "UnstampedRecord",
    "batch_crc_is_valid",
    "decode_batch",
    "decode_records",
    "encode_batch",
    "frame_records",
    "iterate_batches",
    "iterate_records",
    "pack_header",
    "read_batch_header",
    "recompress",
    "require_magic",
    "restamp",
    "timestamp_overflow",
]

Header: TypeAlias = tuple[str, bytes | None]
"""A record's header: key, and a value that may be null."""

UnstampedRecord: TypeAlias = tuple[int, bytes | None, bytes | None, Sequence[Header]]
"""A record without an offset yet: timestamp in milliseconds, key, value, headers."""

_NO_LEADER_EPOCH: Final = LeaderEpoch(-1)

_new_tuple: Final = tuple.__new__


class Record(NamedTuple):
    """One decoded record of the log."""

    offset: Offset
    timestamp_ms: Millis
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class FramedRecords(NamedTuple):
    """Encoded records for the beginning of a batch; all of them have the batch's base timestamp."""

    payload: bytes
    records_count: int


def decode_records(view: bytes | bytearray | memoryview, start_offset: int = 0) -> Iterator[Record]:
    """Yields the records from `start_offset` in fetched bytes, as an application sees them.

    Control batches and a partial batch at the end are left out. The caller has to filter aborted transactions. Raises
    `KafkaError`: CORRUPT_MESSAGE for a bad header, CRC or codec, INVALID_RECORD for malformed records,
    UNSUPPORTED_FOR_MESSAGE_FORMAT for magic 0 and 1.
    """
    for position, header in iterate_batches(view):
        require_magic(header)
        if not batch_crc_is_valid(view, position, header):
            raise CorruptRecord(f"the CRC of the batch at offset {header.base_offset} does not match its bytes")
        if header.is_control or header.last_offset < start_offset:
            continue
        records = _decode_payload(_open_payload(view, position, header, DEFAULT_MAX_BYTES), header)
        if header.base_offset >= start_offset:
            yield from records
        else:
            yield from (record for record in records if record.offset >= start_offset)


def decode_batch(
    view: bytes | bytearray | memoryview, position: int = 0, max_bytes: int = DEFAULT_MAX_BYTES
) -> list[Record]:
    """Returns all records of the batch at `position`, also of a control batch; the CRC is not checked.

    `max_bytes` limits the decompressed size; as objects the records take much more memory. Raises `KafkaError` as
    `decode_records`.
    """
    return list(iterate_records(view, position, max_bytes))


def iterate_records(
    view: bytes | bytearray | memoryview, position: int = 0, max_bytes: int = DEFAULT_MAX_BYTES
) -> Iterator[Record]:
    """Yields the records as `decode_batch`, one at a time: a hostile batch takes at most `max_bytes` of memory."""
    header = read_batch_header(view, position)
    return _decode_payload(_open_payload(view, position, header, max_bytes), header)


def require_magic(header: BatchHeader) -> None:
    """Raises `KafkaError` (UNSUPPORTED_FOR_MESSAGE_FORMAT) for a batch of magic 0 or 1."""
    if header.magic != MAGIC:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"records of magic {header.magic} are not supported, only those of magic {MAGIC}",
        )


def _open_payload(view: bytes | bytearray | memoryview, position: int, header: BatchHeader, max_bytes: int) -> bytes:
    require_magic(header)
    end = position + header.size_bytes
    if end > len(view):
        raise CorruptRecord(f"a batch of {header.size_bytes} bytes in {len(view) - position} bytes")
    payload = memoryview(view)[position + HEADER_SIZE_BYTES : end]
    return decompress(header.compression, payload, max_bytes)


def _decode_payload(data: bytes, header: BatchHeader) -> Iterator[Record]:  # noqa: PLR0912, PLR0915 - in line for speed
    # Varints of one and two bytes are read inline: a call for each would double the time.
    # Lengths are not compared with the end one by one: a slice never exceeds the existing bytes, a position never
    # goes back, and a record whose end does not match its length is refused.
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.timestamp_type else None
    end = len(data)
    count = header.records_count
    # The smallest record has seven bytes: a length and six fields.
    if not 0 <= count <= end // 7:
        raise _invalid(f"{count} records in {end} bytes")
    new_tuple, record_class = _new_tuple, Record
    position = 0
    try:
        for _ in range(count):
            byte = data[position]
            if byte < 0x80:
                position += 1
                length = byte >> 1 if not byte & 1 else -1
            else:
                length, position = read_varint(data, position)
            record_end = position + length
            if length < 0 or record_end > end:
                raise _invalid(f"a record of {length} bytes in {end - position} bytes")
            position += 1

            byte = data[position]
            if byte < 0x80:
                position += 1
                timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
            else:
                second = data[position + 1]
                if second < 0x80:
                    position += 2
                    byte = (byte & 0x7F) | second << 7
                    timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
                else:
                    delta, position = read_varlong(data, position)
                    timestamp = base_timestamp + delta

            byte = data[position]
            if byte < 0x80:
                position += 1
                offset = base_offset + ((byte >> 1) ^ -(byte & 1))
            else:
                second = data[position + 1]
                if second < 0x80:
                    position += 2
                    byte = (byte & 0x7F) | second << 7
                    offset = base_offset + ((byte >> 1) ^ -(byte & 1))
                else:
                    delta, position = read_varint(data, position)
                    offset = base_offset + delta

            byte = data[position]
            if byte < 0x80:
                position += 1
                length = (byte >> 1) ^ -(byte & 1)
            else:
                length, position = read_varint(data, position)
            if length >= 0:
                field_end = position + length
                key = data[position:field_end]
                position = field_end
            else:
                key = None

            byte = data[position]
            if byte < 0x80:
                position += 1
                length = (byte >> 1) ^ -(byte & 1)
            else:
                second = data[position + 1]
                if second < 0x80:
                    position += 2
                    byte = (byte & 0x7F) | second << 7
                    length = (byte >> 1) ^ -(byte & 1)
                else:
                    length, position = read_varint(data, position)
            if length >= 0:
                field_end = position + length
                value = data[position:field_end]
                position = field_end
            else:
                value = None

            if data[position]:
                headers, position = _decode_headers(data, position, record_end)
            else:
                headers = ()
                position += 1
            if position != record_end:
                raise _invalid(f"a record ends {position - record_end} bytes after its length says")
            if append_time is not None:
                timestamp = append_time
            yield new_tuple(record_class, (offset, timestamp, key, value, headers))
    except (IndexError, MalformedMessage):
        raise _invalid("a record ends within a field") from None
    if position != end:
        raise _invalid(f"{end - position} bytes follow the last of {count} records")


def _decode_headers(data: bytes, position: int, end: int) -> tuple[tuple[Header, ...], int]:
    count, position = read_varint(data, position)
    # A header has at least the lengths of its key and value.
    if not 0 <= count <= (end - position) // 2:
        raise _invalid(f"{count} headers in {end - position} bytes")
    headers: list[Header] = []
    for _ in range(count):
        length, position = read_varint(data, position)
        if length < 0:
            raise _invalid("a header without a key")
        key = str(data[position : position + length], "utf-8", "replace")
        length, position = read_varint(data, position + length)
        if length >= 0:
            headers.append((key, data[position : position + length]))
            position += length
        else:
            headers.append((key, None))
    return tuple(headers), position


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)


def timestamp_overflow(offset: int, timestamp_ms: int) -> KafkaError:
    """Returns the error for a record whose timestamp in microseconds does not fit into the 64 bits that Spark has."""
    return _invalid(
        f"the record at offset {offset} has the timestamp {timestamp_ms}, which is beyond Spark's timestamps. "
        "Kafka's are in milliseconds since 1970: does the producer write nanoseconds?"
    )


def encode_batch(
    records: Iterable[UnstampedRecord],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    compressed_from_bytes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    partition_leader_epoch: int = _NO_LEADER_EPOCH,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time_ms: int | None = None,
    framed: FramedRecords | None = None,
) -> bytes:
    """Encodes one batch of the records, in their order and at consecutive offsets, as a Java client does.

    The `framed` records come before `records`, with the timestamp of the first of `records`.

    A batch of at most `compressed_from_bytes` is not compressed. If `compressed_from_bytes` is given, a batch that
    compression does not make smaller stays uncompressed too.
    With `log_append_time_ms` the batch has the timestamp type LogAppendTime, and readers see that time on every record.
    """
    payload = bytearray()
    first = count = 0
    if framed is not None:
        payload += framed.payload
        first = count = framed.records_count
    base_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    for timestamp, key, value, headers in records:
        if count == first:
            base_timestamp = max_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        payload += _frame(timestamp - base_timestamp, count, key, value, headers)
        count += 1
    if count == first:
        raise ValueError("a batch holds at least one record")
    if HEADER_SIZE_BYTES + len(payload) <= compressed_from_bytes:
        compression = Compression.NONE
    closed = bytes(payload) if not compression else compress(compression, payload, compression_level)
    if compression and compressed_from_bytes and len(closed) >= len(payload):
        compression, closed = Compression.NONE, bytes(payload)
    attributes = int(compression)
    if is_transactional:
        attributes |= TRANSACTIONAL_MASK
    if is_control:
        attributes |= CONTROL_MASK
    # `pack_header` sets length and CRC.
    fields = (
        base_offset,
        0,
        partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    header = _new_tuple(BatchHeader, fields)
    if log_append_time_ms is not None:
        header = header.with_log_append_time(Millis(log_append_time_ms))
    return pack_header(header, closed) + closed


def frame_records(records: Iterable[tuple[bytes | None, bytes | None]]) -> FramedRecords:
    """Encodes records for the beginning of a batch; they are given as key and value, without headers."""
    frames = [_frame(0, index, key, value, ()) for index, (key, value) in enumerate(records)]
    return FramedRecords(b"".join(frames), len(frames))


def _frame(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]
) -> bytes:
    body = b"\x00" + encode_varint(timestamp_delta) + encode_varint(offset_delta)
    body += b"\x01" if key is None else encode_varint(len(key)) + key
    body += b"\x01" if value is None else encode_varint(len(value)) + value
    body += _encode_headers(headers) if headers else b"\x00"
    return encode_varint(len(body)) + body


def _encode_headers(headers: Sequence[Header]) -> bytes:
    parts = [encode_varint(len(headers))]
    for key, value in headers:
        encoded_key = key.encode()
        parts += (encode_varint(len(encoded_key)), encoded_key)
        if value is None:
            parts.append(b"\x01")
        else:
            parts += (encode_varint(len(value)), value)
    return b"".join(parts)


def recompress(
    view: bytes | bytearray | memoryview,
    position: int,
    header: BatchHeader,
    compression: Compression,
    *,
    compression_level: int | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> bytes:
    """Returns the batch at `position` with its records under another codec; everything else stays the same.

    Raises `KafkaError` as `decode_batch`, but does not check the records themselves.
    """
    payload = compress(compression, _open_payload(view, position, header, max_bytes), compression_level)
    return pack_header(header.with_compression(compression), payload) + payload

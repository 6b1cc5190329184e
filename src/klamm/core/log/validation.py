"""What a leader checks of a batch before it gives it offsets, from the batch's header and, where it must, its keys.

The order is Kafka's: the request's shape (one batch, magic 2), the log's limits (base offset, size, CRC), the batch's
own truth (offset range, count, control bit, sequence), then keys and timestamps. What is wrong first decides the error.

Kafka looks into every record for its timestamp and counts them; klamm keeps batches closed and takes the header's word
(base and max timestamp, count). The CRC says that these are the bytes that the producer wrote.

Source: `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`,
`storage/internals/log/LogValidator.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.protocol.checksum import crc32c
from klamm.protocol.compression import COMPRESSION_BY_ID, Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_ID,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    CorruptRecord,
    pack_header,
    read_batch_header,
)
from klamm.protocol.record_scanner import scan_records
from klamm.protocol.records import Record, iterate_records, recompress
from klamm.protocol.types import NO_TIMESTAMP, Millis, TopicPartition

if TYPE_CHECKING:
    from klamm.config.topic import TopicConfig

__all__ = ["InvalidRecords", "LOG_APPEND_TIME", "check_batch", "needs_rewrite", "read_single_batch", "rewrite"]

LOG_APPEND_TIME: Final = "LogAppendTime"
MAXIMUM_RECORD_ERRORS: Final = 1000
"""So many records of a batch are found fault with; Kafka goes on to the last."""

NO_KEY_END: Final = -1
"""Where the key of a record ends that has none, as the record scanner says it."""

_CRC_START: Final = 21
_CODECS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class InvalidRecords(KafkaError):
    """Single records were refused, and the batch with them.

    `record_errors` holds (index in the batch, what is wrong with it), for the answer's field of that name (KIP-467).
    """

    __slots__ = ("record_errors",)

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def read_single_batch(records: memoryview | bytes) -> BatchHeader:
    """The header of the only batch in what a client sent. Bytes after it that are no whole batch are left out.

    Raises `KafkaError`: INVALID_RECORD for no batch, for more than one and for magic 0 and 1, CORRUPT_MESSAGE for bytes
    that can't be a batch.
    """
    available = len(records)
    if available < HEADER_SIZE_BYTES:
        _refuse_short(records)
    header = read_batch_header(records)
    size = header.batch_length + LOG_OVERHEAD_BYTES
    if size == available and header.magic == MAGIC:
        return header
    if size > available:
        raise KafkaError(ErrorCode.invalid_record, "there must be at least one whole record batch per partition")
    if header.magic != MAGIC:
        raise KafkaError(
            ErrorCode.invalid_record,
            f"only record batches with magic version 2 are stored, not {header.magic}: use a client from 2017 or later",
        )
    rest = available - size
    if rest >= LOG_OVERHEAD_BYTES:
        next_length = int.from_bytes(records[size + 8 : size + LOG_OVERHEAD_BYTES], "big", signed=True)
        if next_length + LOG_OVERHEAD_BYTES <= rest:
            raise KafkaError(ErrorCode.invalid_record, "there must be exactly one record batch per partition")
    return header


def _refuse_short(records: memoryview | bytes) -> None:
    """Raises what the bytes deserve if they are no old message, which may be shorter than a header of today."""
    if len(records) >= LOG_OVERHEAD_BYTES:
        length = int.from_bytes(records[8:LOG_OVERHEAD_BYTES], "big", signed=True)
        if length + LOG_OVERHEAD_BYTES <= len(records):
            return  # read_batch_header finds what is wrong with it
    raise KafkaError(ErrorCode.invalid_record, "there must be at least one whole record batch per partition")


def check_batch(  # noqa: PLR0917 - called once for each batch: keywords would cost
    records: memoryview | bytes,
    header: BatchHeader,
    config: TopicConfig,
    now_ms: Millis,
    from_client: bool,
    topic_partition: TopicPartition,
) -> None:
    """Refuses a batch that must not get offsets. Sequences and transactions are the producer state's to check.

    `from_client` is False for batches that the broker itself writes: they may be control batches, and it is sure of
    their keys.
    Raises `KafkaError`: INVALID_RECORD, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE, INVALID_TIMESTAMP.
    """
    size = header.batch_length + LOG_OVERHEAD_BYTES
    attributes = header.attributes
    if from_client and header.base_offset != 0:
        raise KafkaError(
            ErrorCode.invalid_record, f"the base offset of a record batch should be 0, but it is {header.base_offset}"
        )
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.message_too_large,
            f"the record batch size is {size} bytes, which exceeds the maximum configured value of "
            f"{config.max_message_bytes} (max.message.bytes)",
        )
    if crc32c(memoryview(records)[_CRC_START:size], 0) != header.crc:
        raise CorruptRecord(f"record is corrupt (stored crc = {header.crc})")
    if attributes & COMPRESSION_MASK not in COMPRESSION_BY_ID:
        # Kafka stumbles over it, and so that is what clients get to see.
        reason = f"unknown compression codec {attributes & COMPRESSION_MASK}"
        raise KafkaError(ErrorCode.unknown_server_error, reason)
    if from_client:
        count = header.records_count
        if count <= 0 or count != header.last_offset_delta + 1:
            raise KafkaError(
                ErrorCode.invalid_record,
                f"inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {count}",
            )
        if attributes & CONTROL_MASK:
            raise KafkaError(ErrorCode.invalid_record, "clients are not allowed to write control records")
        if header.producer_id > NO_PRODUCER_ID and header.base_sequence < 0:
            raise KafkaError(
                ErrorCode.invalid_record,
                f"invalid sequence number {header.base_sequence} in a record batch with producer id "
                f"{header.producer_id}",
            )
        if config.compact and NO_KEY_END in scan_records(records, 0, header).key_ends:
            _check_records(records, header, config, now_ms, topic_partition, wants_keys=True)
    if _may_break_time_limits(header, config, now_ms):
        _check_records(records, header, config, now_ms, topic_partition, wants_keys=False)


def _may_break_time_limits(header: BatchHeader, config: TopicConfig, now_ms: Millis) -> bool:
    """Whether the records' timestamps must be looked at one by one, by what the header says of them."""
    newest = header.max_timestamp
    if config.message_timestamp_type == LOG_APPEND_TIME or newest == NO_TIMESTAMP:
        return bool(header.attributes & TIMESTAMP_TYPE_MASK)
    oldest = header.base_timestamp if header.base_timestamp != NO_TIMESTAMP else newest
    return (
        newest - now_ms > config.message_timestamp_after_max_ms
        or now_ms - oldest > config.message_timestamp_before_max_ms
        or now_ms - newest > config.message_timestamp_before_max_ms
    )


def _check_records(
    records: memoryview | bytes,
    header: BatchHeader,
    config: TopicConfig,
    now_ms: Millis,
    topic_partition: TopicPartition,
    *,
    wants_keys: bool,
) -> None:
    """Opens the batch and raises `InvalidRecords` with what is wrong with each record, up to a limit."""
    errors: list[tuple[int, str]] = []
    has_bad_time = False
    for index, record in enumerate(iterate_records(records)):
        if wants_keys and record.key is None:
            no_key = f"Compacted topic cannot accept message without key in topic partition {topic_partition}"
            errors.append((index, no_key))
        elif reason := _what_is_wrong_with_time(index, record, header, config, now_ms):
            errors.append((index, reason))
            has_bad_time = True
        if len(errors) == MAXIMUM_RECORD_ERRORS:
            break
    if has_bad_time:
        message = "One or more records have been rejected due to invalid timestamp"
        raise InvalidRecords(ErrorCode.invalid_timestamp, message, tuple(errors))
    if errors:
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{reason}')" for index, reason in errors[:3])
        message = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
        raise InvalidRecords(ErrorCode.invalid_record, message, tuple(errors))


def _what_is_wrong_with_time(
    index: int, record: Record, header: BatchHeader, config: TopicConfig, now_ms: Millis
) -> str | None:
    timestamp = record.timestamp_ms
    if config.message_timestamp_type != LOG_APPEND_TIME and timestamp != NO_TIMESTAMP:
        oldest = now_ms - config.message_timestamp_before_max_ms
        newest = now_ms + config.message_timestamp_after_max_ms
        if oldest <= timestamp <= newest:
            return None
        return (
            f"Timestamp {timestamp} of message with offset {index} is out of range. "
            f"The timestamp should be within [{oldest}, {newest}]"
        )
    if header.attributes & TIMESTAMP_TYPE_MASK:
        return (
            f"Invalid timestamp type in message DefaultRecord(offset={index}, timestamp={timestamp}, "
            f"key={len(record.key or b'')} bytes, value={len(record.value or b'')} bytes). "
            "Producer should not set timestamp type to LogAppendTime."
        )
    return None


def needs_rewrite(header: BatchHeader, config: TopicConfig) -> bool:
    """Whether the batch can't be stored as it came: the leader sets its time, or keeps it under another codec."""
    if config.message_timestamp_type == LOG_APPEND_TIME or header.attributes & TIMESTAMP_TYPE_MASK:
        return True
    return config.compression_type != "producer" and _CODECS[config.compression_type] != header.compression


def rewrite(records: memoryview | bytes, header: BatchHeader, config: TopicConfig, now_ms: Millis) -> memoryview:
    """The batch as the topic's `message.timestamp.type` and `compression.type` want it, with a CRC that fits.

    Raises `KafkaError`: MESSAGE_TOO_LARGE if the other codec makes it exceed `max.message.bytes`, CORRUPT_MESSAGE or
    INVALID_RECORD if it can't be opened.
    """
    view = memoryview(records)[: header.size_bytes]
    codec = header.compression if config.compression_type == "producer" else _CODECS[config.compression_type]
    # Kafka never compresses control records: a marker must be readable at a glance.
    if codec != header.compression and not header.is_control:
        view = memoryview(recompress(view, 0, header, codec, compression_level=_level(codec, config)))
        header = read_batch_header(view)
        if len(view) > config.max_message_bytes:
            raise KafkaError(
                ErrorCode.message_too_large,
                f"the record batch has {len(view)} bytes under {config.compression_type}, which exceeds the maximum "
                f"configured value of {config.max_message_bytes} (max.message.bytes)",
            )
    if config.message_timestamp_type == LOG_APPEND_TIME:
        header = header.with_log_append_time(now_ms)
    elif header.attributes & TIMESTAMP_TYPE_MASK:
        header = header._replace(attributes=header.attributes & ~TIMESTAMP_TYPE_MASK)
    else:
        return view
    payload = view[HEADER_SIZE_BYTES:]
    return memoryview(pack_header(header, payload) + payload)


def _level(codec: Compression, config: TopicConfig) -> int | None:
    if codec == Compression.GZIP:
        return config.compression_gzip_level if config.compression_gzip_level >= 0 else None
    if codec == Compression.ZSTD:
        return config.compression_zstd_level
    return None

"""Validates the header of a batch before a leader assigns offsets to it.

The order of the checks is Kafka's: the request's shape (one batch, magic 2), the log's limits (base offset, size, CRC),
the batch's consistency (offset range, count, control bit, sequence), then keys and timestamps. The first failed check
decides the error.

Kafka reads every record for its timestamp and counts the records. klamm keeps batches closed and trusts the header
(base and max timestamp, count). The CRC shows that these are the bytes that the producer wrote. `batch_opening`
decides when the header is not enough, and reads the records.

Source: `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`,
`storage/internals/log/LogValidator.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.protocol.checksum import crc32c
from klamm.protocol.compression import COMPRESSION_BY_ID
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import (
    COMPRESSION_MASK,
    CONTROL_MASK,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_ID,
    BatchHeader,
    CorruptRecord,
    read_batch_header,
)

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig

__all__ = ["check_batch", "read_single_batch"]

_CRC_START: Final = 21


def read_single_batch(records: memoryview | bytes) -> BatchHeader:
    """Returns the header of the only batch in a client's records; ignores following bytes that are not a whole batch.

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
        raise KafkaError(ErrorCode.INVALID_RECORD, "there must be at least one whole record batch per partition")
    if header.magic != MAGIC:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"only record batches with magic version 2 are stored, not {header.magic}: use a client from 2017 or later",
        )
    rest = available - size
    if rest >= LOG_OVERHEAD_BYTES:
        next_length = int.from_bytes(records[size + 8 : size + LOG_OVERHEAD_BYTES], "big", signed=True)
        if next_length + LOG_OVERHEAD_BYTES <= rest:
            raise KafkaError(ErrorCode.INVALID_RECORD, "there must be exactly one record batch per partition")
    return header


def _refuse_short(records: memoryview | bytes) -> None:
    """Refuses bytes shorter than a header, unless they are a message of an old format, which may be shorter."""
    if len(records) >= LOG_OVERHEAD_BYTES:
        length = int.from_bytes(records[8:LOG_OVERHEAD_BYTES], "big", signed=True)
        if length + LOG_OVERHEAD_BYTES <= len(records):
            return  # read_batch_header raises the right error
    raise KafkaError(ErrorCode.INVALID_RECORD, "there must be at least one whole record batch per partition")


def check_batch(
    records: memoryview | bytes,
    header: BatchHeader,
    config: TopicConfig,
    from_client: bool,
) -> None:
    """Refuses an invalid batch. The producer state checks sequences and transactions.

    `from_client` is False for batches of the broker itself, which may be control batches.
    Raises `KafkaError`: INVALID_RECORD, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE.
    """
    size = header.batch_length + LOG_OVERHEAD_BYTES
    attributes = header.attributes
    if from_client and header.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"the base offset of a record batch should be 0, but it is {header.base_offset}"
        )
    if size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the record batch size is {size} bytes, which exceeds the maximum configured value of "
            f"{config.max_message_bytes} (max.message.bytes)",
        )
    if crc32c(memoryview(records)[_CRC_START:size], 0) != header.crc:
        raise CorruptRecord(f"record is corrupt (stored crc = {header.crc})")
    if attributes & COMPRESSION_MASK not in COMPRESSION_BY_ID:
        # Kafka does not handle this case, so its clients get this error.
        reason = f"unknown compression codec {attributes & COMPRESSION_MASK}"
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, reason)
    if from_client:
        count = header.records_count
        if count <= 0 or count != header.last_offset_delta + 1:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"inconsistent batch offset range [0, {header.last_offset_delta}] and count of records {count}",
            )
        if attributes & CONTROL_MASK:
            raise KafkaError(ErrorCode.INVALID_RECORD, "clients are not allowed to write control records")
        if header.producer_id > NO_PRODUCER_ID and header.base_sequence < 0:
            raise KafkaError(
                ErrorCode.INVALID_RECORD,
                f"invalid sequence number {header.base_sequence} in a record batch with producer id "
                f"{header.producer_id}",
            )

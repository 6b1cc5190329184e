"""Opens batches whose header is not enough to validate or store them: reads the records, and recompresses if needed.

Kafka reads every record of every batch. klamm opens a batch only if its header is not enough: on a compacted topic, for
timestamps that may be out of range (with `message.timestamp.before.max.ms`, in each batch of several records), and for
a topic with its own codec.

A small batch can contain very many records: two kilobytes of zstd decompress to 64 MB. So an opening is limited in
bytes and in records. It is a value with all that it needs, so that the broker can finish small openings at once and
others on a thread. A batch above the limits is refused with MESSAGE_TOO_LARGE; Java's producers then split a compressed
batch and send its halves. If the first records of a batch are already invalid, the batch is refused because of them.

Source: `storage/internals/log/LogValidator.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from klamm.protocol.compression import DEFAULT_MAX_BYTES, Compression, OpenedData, compress
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import (
    HEADER_SIZE_BYTES,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    pack_header,
    read_batch_header,
)
from klamm.protocol.record_scanner import SMALLEST_RECORD_BYTES, FoundRecord, RecordQuery, find_records, open_batch
from klamm.protocol.types import NO_TIMESTAMP, Millis, TopicPartition

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig

__all__ = [
    "LOG_APPEND_TIME",
    "MAXIMUM_OPENED_BYTES",
    "MAXIMUM_OPENED_RECORDS",
    "MAXIMUM_RECORD_ERRORS",
    "BatchOpening",
    "BeginningIsNotEnough",
    "InvalidRecords",
    "finish",
    "is_stored_as_it_came",
    "must_be_opened",
    "needs_new_header",
    "open_now",
    "with_new_header",
]

R = TypeVar("R")

LOG_APPEND_TIME: Final = "LogAppendTime"

MAXIMUM_OPENED_BYTES: Final = 64 * 1024 * 1024
"""The most bytes to which a client's batch may decompress, unless `max.message.bytes` is larger."""
MAXIMUM_OPENED_RECORDS: Final = 1_000_000
"""The most records that are read of a client's batch, unless a batch of `max.message.bytes` can hold more."""
MAXIMUM_RECORD_ERRORS: Final = 1000
"""The most record errors in the response to a refused batch; Kafka reports all."""

_LARGEST_TIMESTAMP: Final = 2**63 - 1
_ALL_TIMES: Final = (-(2**63), _LARGEST_TIMESTAMP)
_NO_TIME: Final = (1, 0)

_CODECS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class BeginningIsNotEnough(Exception):
    """More of a batch has to be opened before it can be judged."""


class InvalidRecords(KafkaError):
    """A batch was refused because of some of its records.

    `record_errors` contains pairs of index in the batch and error message, for the response's field of that name
    (KIP-467).
    """

    __slots__ = ("record_errors",)

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def is_stored_as_it_came(header: BatchHeader, config: TopicConfig, now_ms: Millis, from_client: bool) -> bool:
    """Returns whether the header is enough to validate the batch, and only the leader's own fields have to change.

    `from_client` is False for batches of the broker's coordinators: their records have keys.
    """
    newest = header.max_timestamp
    oldest = header.base_timestamp
    before_max_ms = config.message_timestamp_before_max_ms
    return (
        config.compression_type == "producer"
        and config.message_timestamp_type != LOG_APPEND_TIME
        and not header.attributes & TIMESTAMP_TYPE_MASK
        and newest - now_ms <= config.message_timestamp_after_max_ms
        and now_ms - oldest <= before_max_ms
        and now_ms - newest <= before_max_ms
        and (before_max_ms == _LARGEST_TIMESTAMP or header.records_count == 1)
        and not (from_client and config.compact)
    )


def must_be_opened(header: BatchHeader, config: TopicConfig, now_ms: Millis, from_client: bool) -> bool:
    """Returns whether the header is not enough to validate or to store the batch."""
    return (
        (config.compact and from_client)
        or _changes_codec(header, config)
        or _may_break_time_limits(header, config, now_ms)
    )


def _changes_codec(header: BatchHeader, config: TopicConfig) -> bool:
    # Kafka never compresses control records, so that a marker is readable without decompression.
    return (
        config.compression_type != "producer"
        and _CODECS[config.compression_type] != header.compression
        and not header.is_control
    )


def _may_break_time_limits(header: BatchHeader, config: TopicConfig, now_ms: Millis) -> bool:
    """Returns whether, according to the header, each record's timestamp has to be checked."""
    newest = header.max_timestamp
    if config.message_timestamp_type == LOG_APPEND_TIME or newest == NO_TIMESTAMP:
        return bool(header.attributes & TIMESTAMP_TYPE_MASK)
    if newest - now_ms > config.message_timestamp_after_max_ms:
        return True
    before_max_ms = config.message_timestamp_before_max_ms
    if before_max_ms == _LARGEST_TIMESTAMP:
        return False
    # The header has the timestamps of the first and of the youngest record, and any other may be the oldest.
    return header.records_count > 1 or now_ms - newest > before_max_ms


def needs_new_header(header: BatchHeader, config: TopicConfig) -> bool:
    """Returns whether the leader has to change the timestamp type of the batch."""
    return config.message_timestamp_type == LOG_APPEND_TIME or bool(header.attributes & TIMESTAMP_TYPE_MASK)


def with_new_header(
    records: memoryview | bytes, header: BatchHeader, config: TopicConfig, now_ms: Millis
) -> memoryview:
    """Returns the batch with the topic's `message.timestamp.type` and a new CRC, without opening it."""
    if config.message_timestamp_type == LOG_APPEND_TIME:
        header = header.with_log_append_time(now_ms)
    else:
        header = header._replace(attributes=header.attributes & ~TIMESTAMP_TYPE_MASK)
    payload = memoryview(records)[HEADER_SIZE_BYTES : header.size_bytes]
    return memoryview(pack_header(header, payload) + payload)


class BatchOpening(NamedTuple):
    """A batch to be opened, with all conditions that its records must meet. Any thread may finish it."""

    records: memoryview | bytes
    header: BatchHeader
    config: TopicConfig
    now_ms: Millis
    topic_partition: TopicPartition
    from_client: bool
    is_for_coordinator: bool = False
    """Whether a coordinator reads the batch back on the event loop; then it may open to at most `max.message.bytes`."""

    def with_own_bytes(self) -> BatchOpening:
        """Returns a copy with its own bytes, which stays valid after the records' buffer is reused."""
        if isinstance(self.records, bytes):
            return self
        return self._replace(records=bytes(self.records[: self.header.size_bytes]))

    @property
    def records_count(self) -> int:
        """How many records have to be read, according to the batch's header."""
        return min(self.header.records_count, self._max_records)

    @property
    def cost(self) -> int:
        """The time per opened byte, relative to a compressed batch: 8 if recompressed, 0 if it is only read."""
        if self._closes_anew:
            return 8
        return 1 if self.header.compression else 0

    @property
    def compressed_bytes(self) -> int:
        """Size of the batch if it is compressed, else 0."""
        return self.header.size_bytes if self.header.compression else 0

    @property
    def _closes_anew(self) -> bool:
        return _changes_codec(self.header, self.config)

    def open_within(self, max_bytes: int) -> OpenedData:
        """Opens the batch's records up to `max_bytes`. Raises `KafkaError` (CORRUPT_MESSAGE)."""
        return open_batch(self.records, 0, self.header, min(max_bytes, self.max_bytes))

    @property
    def max_bytes(self) -> int:
        """The most bytes to which the batch is opened."""
        if not self.from_client:
            return DEFAULT_MAX_BYTES
        if self.is_for_coordinator or (self._closes_anew and self.config.compression_type == "uncompressed"):
            return self.config.max_message_bytes  # a batch that opens to more is refused in any case
        return max(MAXIMUM_OPENED_BYTES, self.config.max_message_bytes)

    @property
    def _max_records(self) -> int:
        if not self.from_client:
            return self.header.records_count
        return max(MAXIMUM_OPENED_RECORDS, self.config.max_message_bytes // SMALLEST_RECORD_BYTES)

    def steps(self, opened: OpenedData) -> Generator[None, None, memoryview]:
        """Validates the records and returns the batch in the form in which the topic stores it.

        Yields at intervals, so that other threads can run. Raises `BeginningIsNotEnough`, and `KafkaError`:
        `InvalidRecords` for refused records, INVALID_RECORD for bytes that are no record, UNKNOWN_SERVER_ERROR (as
        Kafka does) for offsets that are not consecutive, MESSAGE_TOO_LARGE for a batch above the limits, or one that
        exceeds `max.message.bytes` with the topic's codec.
        """
        header, config = self.header, self.config
        checks_keys = config.compact and self.from_client
        if checks_keys or _may_break_time_limits(header, config, self.now_ms):
            yield from self._check_records(opened, checks_keys)
        records = memoryview(self.records)[: header.size_bytes]
        if self._closes_anew:
            records = self._close_anew(opened)
            header = read_batch_header(records)
        if needs_new_header(header, config):
            return with_new_header(records, header, config, self.now_ms)
        return records

    def _check_records(self, opened: OpenedData, checks_keys: bool) -> Generator[None, None, None]:
        query = self._query(checks_keys)
        found = yield from find_records(
            opened,
            self.header.records_count,
            query,
            max_records=self._max_records,
            max_found=MAXIMUM_RECORD_ERRORS,
        )
        if found.records and (len(found.records) == MAXIMUM_RECORD_ERRORS or not self._can_open_more(opened)):
            self._refuse(found.records, query)
        if not found.is_complete:
            raise self._not_enough(opened)

    def _can_open_more(self, opened: OpenedData) -> bool:
        return not opened.is_whole and opened.max_bytes < self.max_bytes

    def _not_enough(self, opened: OpenedData) -> Exception:
        if self._can_open_more(opened):
            return BeginningIsNotEnough()
        return KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch of {self.header.size_bytes} bytes holds {self.header.records_count} records or opens to more "
            f"than {self.max_bytes} bytes; a leader looks at no more than {self._max_records} records and "
            f"{self.max_bytes} bytes of a batch: send smaller batches",
        )

    def _query(self, without_key: bool) -> RecordQuery:
        header, config = self.header, self.config
        append_time = header.max_timestamp if header.timestamp_type else None
        is_inside = True
        if config.message_timestamp_type == LOG_APPEND_TIME or append_time == NO_TIMESTAMP:
            # Only the leader may set this timestamp type.
            times = _NO_TIME if append_time is None else _ALL_TIMES
        else:
            times, is_inside = self._time_limits, False
        return RecordQuery(
            base_timestamp=header.base_timestamp,
            append_time=append_time,
            oldest=times[0],
            newest=min(times[1], _LARGEST_TIMESTAMP),
            is_inside=is_inside,
            without_key=without_key,
            # As in Kafka, which numbers the records of other batches in their order.
            out_of_sequence=header.compression != Compression.NONE and not self._closes_anew,
        )

    @property
    def _time_limits(self) -> tuple[int, int]:
        config = self.config
        return (
            self.now_ms - config.message_timestamp_before_max_ms,
            self.now_ms + config.message_timestamp_after_max_ms,
        )

    def _refuse(self, found: list[FoundRecord], query: RecordQuery) -> None:
        errors: list[tuple[int, str]] = []
        has_bad_time = False
        for record in found:
            if query.without_key and record.key_length < 0:
                no_key = f"Compacted topic cannot accept message without key in topic partition {self.topic_partition}"
                errors.append((record.number, no_key))
            elif query.asks_for_time(record.timestamp):
                errors.append((record.number, self._what_is_wrong_with_time(record)))
                has_bad_time = True
        if has_bad_time:
            message = "One or more records have been rejected due to invalid timestamp"
            raise InvalidRecords(ErrorCode.INVALID_TIMESTAMP, message, tuple(errors))
        if not errors:
            first = found[0]
            message = f"record {first.number} of a compressed batch has the offset {first.offset_delta}"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{reason}')" for index, reason in errors[:3])
        message = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
        raise InvalidRecords(ErrorCode.INVALID_RECORD, message, tuple(errors))

    def _what_is_wrong_with_time(self, record: FoundRecord) -> str:
        if self.config.message_timestamp_type != LOG_APPEND_TIME and record.timestamp != NO_TIMESTAMP:
            oldest, newest = self._time_limits
            return (
                f"Timestamp {record.timestamp} of message with offset {record.offset_delta} is out of range. "
                f"The timestamp should be within [{oldest}, {newest}]"
            )
        return (
            f"Invalid timestamp type in message DefaultRecord(offset={record.offset_delta}, "
            f"timestamp={record.timestamp}, key={max(record.key_length, 0)} bytes, "
            f"value={max(record.value_length, 0)} bytes). Producer should not set timestamp type to LogAppendTime."
        )

    def _close_anew(self, opened: OpenedData) -> memoryview:
        config = self.config
        if not opened.is_whole:
            raise self._not_enough(opened)
        codec = _CODECS[config.compression_type]
        payload = compress(codec, opened.data, _level(codec, config))
        size = HEADER_SIZE_BYTES + len(payload)
        if size > config.max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the record batch has {size} bytes under {config.compression_type}, which exceeds the maximum "
                f"configured value of {config.max_message_bytes} (max.message.bytes)",
            )
        return memoryview(pack_header(self.header.with_compression(codec), payload) + payload)


def open_now(opening: BatchOpening) -> memoryview:
    """Finishes the opening on the calling thread, for any size of batch. Raises the errors of `BatchOpening.steps`."""
    return finish(opening.steps(opening.open_within(opening.max_bytes)))


def finish(steps: Generator[None, None, R]) -> R:
    """Runs all steps, and returns their result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result


def _level(codec: Compression, config: TopicConfig) -> int | None:
    if codec == Compression.GZIP:
        return config.compression_gzip_level if config.compression_gzip_level >= 0 else None
    if codec == Compression.ZSTD:
        return config.compression_zstd_level
    return None

"""What a leader does to a batch that it can't judge, or store, by its header: looks at its records, closes it anew.

Kafka looks into every record of every batch. klamm opens a batch only where its header is not enough: on a compacted
topic, for timestamps that may be out of range, and for a topic with a codec of its own.

A small batch can hold very many records: two kilobytes of zstd open to 64 MB. So an opening is bounded, in bytes and in
records, and it is a value that holds all it needs: the broker finishes small ones at once and others on a thread. What
exceeds the bounds is refused with MESSAGE_TOO_LARGE, after which Java's producers split a compressed batch and send its
halves. The first records decide where they can: a batch with records to be refused is refused for those.

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
"""What the records of a client's batch may open to, unless `max.message.bytes` is larger."""
MAXIMUM_OPENED_RECORDS: Final = 1_000_000
"""How many records of a client's batch are looked at, unless a batch of `max.message.bytes` can hold more."""
MAXIMUM_RECORD_ERRORS: Final = 1000
"""How many records of a batch are named in the answer that refuses it; Kafka names all."""

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
    """More of a batch is to be opened before anything can be said of it."""


class InvalidRecords(KafkaError):
    """Single records were refused, and the batch with them.

    `record_errors` holds (index in the batch, what is wrong with it), for the answer's field of that name (KIP-467).
    """

    __slots__ = ("record_errors",)

    def __init__(self, code: ErrorCode, message: str, record_errors: tuple[tuple[int, str], ...]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def is_stored_as_it_came(header: BatchHeader, config: TopicConfig, now_ms: Millis, from_client: bool) -> bool:
    """Whether the header is enough to judge the batch, and nothing of it is to be changed but what the leader stamps.

    `from_client` is False for what the broker's coordinators write: their records have keys.
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
        and not (from_client and config.compact)
    )


def must_be_opened(header: BatchHeader, config: TopicConfig, now_ms: Millis, from_client: bool) -> bool:
    """Whether the header is not enough to judge the batch, or to store it."""
    return (
        (config.compact and from_client)
        or _changes_codec(header, config)
        or _may_break_time_limits(header, config, now_ms)
    )


def _changes_codec(header: BatchHeader, config: TopicConfig) -> bool:
    # Kafka never compresses control records: a marker must be readable at a glance.
    return (
        config.compression_type != "producer"
        and _CODECS[config.compression_type] != header.compression
        and not header.is_control
    )


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


def needs_new_header(header: BatchHeader, config: TopicConfig) -> bool:
    """Whether the leader sets the type of the batch's timestamps."""
    return config.message_timestamp_type == LOG_APPEND_TIME or bool(header.attributes & TIMESTAMP_TYPE_MASK)


def with_new_header(
    records: memoryview | bytes, header: BatchHeader, config: TopicConfig, now_ms: Millis
) -> memoryview:
    """The batch with timestamps of the topic's `message.timestamp.type`, and a CRC that fits; it is not opened."""
    if config.message_timestamp_type == LOG_APPEND_TIME:
        header = header.with_log_append_time(now_ms)
    else:
        header = header._replace(attributes=header.attributes & ~TIMESTAMP_TYPE_MASK)
    payload = memoryview(records)[HEADER_SIZE_BYTES : header.size_bytes]
    return memoryview(pack_header(header, payload) + payload)


class BatchOpening(NamedTuple):
    """A batch to be opened, and all that is asked of its records. It may be finished on any thread."""

    records: memoryview | bytes
    header: BatchHeader
    config: TopicConfig
    now_ms: Millis
    topic_partition: TopicPartition
    from_client: bool
    is_for_coordinator: bool = False
    """Whether a coordinator reads the batch back, on the event loop: it opens to at most `max.message.bytes` then."""

    def with_own_bytes(self) -> BatchOpening:
        """The same for later, when the buffer that the records lie in holds something else."""
        if isinstance(self.records, bytes):
            return self
        return self._replace(records=bytes(self.records[: self.header.size_bytes]))

    @property
    def records_count(self) -> int:
        """How many records there are to walk over, by the batch's header."""
        return min(self.header.records_count, self._max_records)

    @property
    def cost(self) -> int:
        """How many bytes may be opened in the time that one of this batch takes; 0 if it is only to be walked over."""
        if self._closes_anew:
            return 8
        return 1 if self.header.compression else 0

    @property
    def _closes_anew(self) -> bool:
        return _changes_codec(self.header, self.config)

    def open_within(self, max_bytes: int) -> OpenedData:
        """The batch's records, or the beginning of them. Raises `KafkaError` (CORRUPT_MESSAGE)."""
        return open_batch(self.records, 0, self.header, min(max_bytes, self.max_bytes))

    @property
    def max_bytes(self) -> int:
        """How many bytes are opened at most."""
        if not self.from_client:
            return DEFAULT_MAX_BYTES
        if self.is_for_coordinator or (self._closes_anew and self.config.compression_type == "uncompressed"):
            return self.config.max_message_bytes  # what opens to more is refused, however much more it is
        return max(MAXIMUM_OPENED_BYTES, self.config.max_message_bytes)

    @property
    def _max_records(self) -> int:
        if not self.from_client:
            return self.header.records_count
        return max(MAXIMUM_OPENED_RECORDS, self.config.max_message_bytes // SMALLEST_RECORD_BYTES)

    def steps(self, opened: OpenedData) -> Generator[None, None, memoryview]:
        """Judges the records and returns the batch as the topic keeps it; yields now and then, for other threads.

        Raises `BeginningIsNotEnough`, and `KafkaError`: `InvalidRecords` for records that are refused, INVALID_RECORD
        for what is no record, UNKNOWN_SERVER_ERROR as Kafka does for offsets that don't follow each other,
        MESSAGE_TOO_LARGE for more than may be opened, and for a batch that exceeds `max.message.bytes` under the
        topic's codec.
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
        return not opened.is_whole and len(opened.data) < self.max_bytes

    def _not_enough(self, opened: OpenedData) -> Exception:
        if self._can_open_more(opened):
            return BeginningIsNotEnough()
        return KafkaError(
            ErrorCode.message_too_large,
            f"the batch of {self.header.size_bytes} bytes holds {self.header.records_count} records or opens to more "
            f"than {self.max_bytes} bytes; a leader looks at no more than {self._max_records} records and "
            f"{self.max_bytes} bytes of a batch: send smaller batches",
        )

    def _query(self, without_key: bool) -> RecordQuery:
        header, config = self.header, self.config
        append_time = header.max_timestamp if header.timestamp_type else None
        is_inside = True
        if config.message_timestamp_type == LOG_APPEND_TIME or append_time == NO_TIMESTAMP:
            # Only the leader says that a timestamp is of that type.
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
            # As in Kafka, which numbers the records of other batches as they come.
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
            raise InvalidRecords(ErrorCode.invalid_timestamp, message, tuple(errors))
        if not errors:
            first = found[0]
            message = f"record {first.number} of a compressed batch has the offset {first.offset_delta}"
            raise KafkaError(ErrorCode.unknown_server_error, message)
        shown = ", ".join(f"RecordError(batchIndex={index}, message='{reason}')" for index, reason in errors[:3])
        message = (
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: [{shown}]"
        )
        raise InvalidRecords(ErrorCode.invalid_record, message, tuple(errors))

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
                ErrorCode.message_too_large,
                f"the record batch has {size} bytes under {config.compression_type}, which exceeds the maximum "
                f"configured value of {config.max_message_bytes} (max.message.bytes)",
            )
        return memoryview(pack_header(self.header.with_compression(codec), payload) + payload)


def open_now(opening: BatchOpening) -> memoryview:
    """Finishes the opening where it is asked for, however large the batch is. Raises as `BatchOpening.steps`."""
    return finish(opening.steps(opening.open_within(opening.max_bytes)))


def finish(steps: Generator[None, None, R]) -> R:
    """What comes of the steps, all at once."""
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

"""A record batch on its way to a broker: made of single records or of finished bytes, and stamped for its producer.

A stamped batch is two buffers: its new header, and the records as they are. The stamp sets base offset 0, no leader
epoch, producer id, epoch, base sequence and the transactional bit, and computes the CRC-32C. The records are not
copied.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from klamm.client.producer.outcome import Delivery
from klamm.protocol.compression import COMPRESSION_BY_ID, Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_MASK,
    HEADER_SIZE_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    batch_crc_is_valid,
    increment_sequence,
    pack_header,
    read_batch_header,
)
from klamm.protocol.records import Header, UnstampedRecord, decode_batch, encode_batch
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, TopicPartition

__all__ = [
    "NO_IDENTITY",
    "BatchState",
    "PendingBatch",
    "ProducerIdentity",
    "StampedBatch",
    "check_record",
    "record_size_bytes",
    "stamp",
]

_RECORD_OVERHEAD_BYTES: Final = 21
"""Upper limit for the varints of a record without headers, as in Kafka's `DefaultRecord.MAX_RECORD_OVERHEAD`."""
_HEADER_OVERHEAD_BYTES: Final = 10


class ProducerIdentity(NamedTuple):
    """A producer id with its epoch, by which a broker identifies a producer."""

    producer_id: ProducerId
    epoch: ProducerEpoch


NO_IDENTITY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

StampedBatch = tuple[bytes, memoryview]
"""The header of a batch, and its records."""


def stamp(
    batch: bytes | bytearray | memoryview,
    identity: ProducerIdentity = NO_IDENTITY,
    base_sequence: int = NO_SEQUENCE,
    *,
    is_transactional: bool = False,
) -> StampedBatch:
    """Returns a whole batch for a Produce request of this producer.

    Raises `CorruptRecord` if the header is malformed.
    """
    view = memoryview(batch)
    header = read_batch_header(view)
    attributes = header.attributes & ~TRANSACTIONAL_MASK | (TRANSACTIONAL_MASK if is_transactional else 0)
    records = view[HEADER_SIZE_BYTES : header.size_bytes]
    stamped = header._replace(
        base_offset=Offset(0),
        partition_leader_epoch=LeaderEpoch(-1),
        attributes=attributes,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=base_sequence,
    )
    return pack_header(stamped, records), records


def record_size_bytes(key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> int:
    """Returns an upper limit for the size of a record in a batch."""
    size = _RECORD_OVERHEAD_BYTES + (0 if key is None else len(key)) + (0 if value is None else len(value))
    for name, content in headers:
        size += _HEADER_OVERHEAD_BYTES + 4 * len(name) + (0 if content is None else len(content))
    return size


def check_record(record: UnstampedRecord) -> None:
    """Raises `TypeError` if the record can't be encoded. Otherwise the error would come in a later call, and stop the
    records behind this one."""
    try:
        encode_batch([record])
    except (TypeError, ValueError, AttributeError, struct.error) as error:
        raise TypeError(
            f"a record has a key and a value of bytes or None, a timestamp in whole milliseconds, and headers of a "
            f"text and bytes or None each: {error}"
        ) from error


class BatchState(Enum):
    """The steps of a batch on its way to the broker."""

    OPEN = auto()
    """Takes more records."""
    CLOSED = auto()
    """Waits to be sent for the first time; has no sequence yet."""
    ON_WIRE = auto()
    """In a request without an answer."""
    RETRY = auto()
    """Waits to be sent again; keeps its sequence."""
    LOST = auto()
    """Failed after it got a sequence: the batches after it can't be written until this gap is resolved."""
    DONE = auto()
    """Acknowledged or failed."""


class PendingBatch:
    """One batch for one partition, from the first record to its end."""

    __slots__ = (
        "_callbacks",
        "_stamped",
        "attempts",
        "base_offset",
        "base_sequence",
        "created_ms",
        "encoded",
        "error",
        "identity",
        "is_done",
        "is_finished",
        "may_be_written",
        "next_attempt_ms",
        "number",
        "parts",
        "reason",
        "records",
        "records_count",
        "reserved_bytes",
        "size_bytes",
        "state",
        "topic_partition",
        "whole_may_be_written",
    )

    def __init__(self, topic_partition: TopicPartition, now: Millis) -> None:
        self.topic_partition = topic_partition
        self.created_ms = now
        self.state = BatchState.OPEN
        self.records: list[UnstampedRecord] | None = []
        """The single records of the batch; None once they are encoded."""
        self.is_finished = False
        """Whether the batch came as finished bytes, which are written as they are."""
        self.records_count = 0
        self.size_bytes = HEADER_SIZE_BYTES
        """Size in a request; an upper limit until the batch is encoded."""
        self.reserved_bytes = 0
        """How much of `buffer.memory` the batch uses until it ends."""
        self.encoded: memoryview | None = None
        """The whole batch with blank producer fields; None until the batch is encoded."""
        self.number = -1
        """Counts the batches of the partition in the order in which they were sent first."""
        self.identity = NO_IDENTITY
        self.base_sequence = NO_SEQUENCE
        self._stamped: StampedBatch | None = None
        self.attempts = 0
        self.next_attempt_ms = now
        """A batch to send again waits until this time."""
        self.may_be_written = False
        """Whether an earlier attempt may have been written although it was not acknowledged."""
        self.whole_may_be_written = False
        """Whether the batch is a part of one that may be written as a whole."""
        self.reason = ""
        """Why the last attempt failed, for messages."""
        self.parts: tuple[tuple[int, PendingBatch], ...] = ()
        """The batches that took over the records when this one was split, each with the index of its first record."""
        self.is_done = False
        self.error: Exception | None = None
        self.base_offset = -1
        self._callbacks: list[Callable[[], None]] = []

    @classmethod
    def finished(cls, topic_partition: TopicPartition, encoded: bytes | memoryview, now: Millis) -> PendingBatch:
        """Returns a batch of finished bytes, ready to be sent.

        Raises `KafkaError` if the bytes are not exactly one batch of magic 2 with a valid CRC and consecutive offsets
        that a producer may write.
        """
        view = memoryview(encoded)
        check_finished(view)
        batch = cls(topic_partition, now)
        batch.records, batch.is_finished = None, True
        batch.records_count = read_batch_header(view).records_count
        batch.encoded = view
        batch.size_bytes = batch.reserved_bytes = len(view)
        batch.state = BatchState.CLOSED
        return batch

    def append(self, record: UnstampedRecord, size_bytes: int) -> Delivery:
        """Adds a record to an open batch; `size_bytes` is that of `record_size_bytes`."""
        assert self.records is not None
        index = self.records_count
        self.records.append(record)
        self.records_count = index + 1
        self.size_bytes += size_bytes
        return Delivery(self, index)

    def encode(self, compression: Compression, level: int | None) -> None:
        """Encodes the records; does nothing for a batch that is encoded."""
        if self.encoded is None:
            assert self.records is not None
            self.encoded = memoryview(encode_batch(self.records, compression=compression, compression_level=level))
            self.size_bytes = len(self.encoded)
            self.records = None

    def assign(self, identity: ProducerIdentity, base_sequence: int) -> None:
        """Sets producer id, epoch and sequence, for the first time or after the epoch was raised."""
        self.identity, self.base_sequence, self._stamped = identity, base_sequence, None

    def stamped(self, *, is_transactional: bool) -> StampedBatch:
        """Returns the encoded batch for a request; a repeated attempt has the same bytes."""
        if self._stamped is None:
            assert self.encoded is not None
            self._stamped = stamp(self.encoded, self.identity, self.base_sequence, is_transactional=is_transactional)
        return self._stamped

    @property
    def next_sequence(self) -> int:
        """The sequence of the first record after the batch."""
        return increment_sequence(self.base_sequence, self.records_count)

    def split(self, size_bytes: int) -> list[PendingBatch]:
        """Returns batches of at most `size_bytes` each (at least one record) that take over the records."""
        assert self.encoded is not None
        parts: list[PendingBatch] = []
        starts: list[tuple[int, PendingBatch]] = []
        for index, (_, timestamp_ms, key, value, headers) in enumerate(decode_batch(self.encoded)):
            size = record_size_bytes(key, value, headers)
            if not parts or parts[-1].size_bytes + size > size_bytes:
                parts.append(PendingBatch(self.topic_partition, self.created_ms))
                starts.append((index, parts[-1]))
            parts[-1].append((timestamp_ms, key, value, headers), size)
        for part in parts:
            part.state = BatchState.CLOSED
            part.reserved_bytes = part.size_bytes
            part.attempts = self.attempts
            part.may_be_written = part.whole_may_be_written = self.may_be_written
        self.parts = tuple(starts)
        self._hand_callbacks_to(parts)
        return parts

    def _hand_callbacks_to(self, parts: list[PendingBatch]) -> None:
        """Calls back when all parts have ended, because it is not known to which records the callbacks belong."""
        callbacks, self._callbacks = self._callbacks, []
        if not callbacks:
            return
        remaining = len(parts)

        def part_ended() -> None:
            nonlocal remaining
            remaining -= 1
            if not remaining:
                for callback in callbacks:
                    callback()

        for part in parts:
            part.add_callback(part_ended)

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Calls the function when the batch ends, at once if it has ended."""
        if self.is_done:
            callback()
        else:
            self._callbacks.append(callback)

    def end(self, error: Exception | None = None, base_offset: int = -1) -> None:
        """Ends the batch, with an error or with success, and frees its records."""
        assert not self.is_done
        self.is_done, self.error, self.base_offset = True, error, base_offset
        self.records = self.encoded = self._stamped = None
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


def check_finished(view: memoryview) -> None:
    """Raises `KafkaError` unless the bytes are exactly one batch that a producer may write; see `PendingBatch`."""
    header = read_batch_header(view)
    reason = None
    if header.magic != MAGIC:
        reason = f"its magic is {header.magic}, not {MAGIC}"
    elif header.size_bytes != len(view):
        reason = f"its header gives {header.size_bytes} bytes, and there are {len(view)}"
    elif not batch_crc_is_valid(view, 0, header):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the CRC of a finished batch does not match its bytes")
    elif header.records_count < 1 or header.records_count != header.last_offset_delta + 1:
        reason = f"it has {header.records_count} records and the last offset delta {header.last_offset_delta}"
    elif header.is_control:
        reason = "it is a control batch, which only brokers write"
    elif header.attributes & (TIMESTAMP_TYPE_MASK | DELETE_HORIZON_MASK):
        reason = "its timestamps were set by a broker (LogAppendTime, or a delete horizon)"
    elif header.attributes & COMPRESSION_MASK not in COMPRESSION_BY_ID:
        reason = f"its compression codec {header.attributes & COMPRESSION_MASK} is unknown"
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a finished batch can't be produced: {reason}")

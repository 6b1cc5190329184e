"""Collects records into batches for each partition, within a limit for their memory.

Source of the rules: `RecordAccumulator` of Apache Kafka 4.3. The memory of a batch is its size, until the batch ends.
The memory of a record is an upper limit of its size.
"""

from __future__ import annotations

from collections.abc import Sequence

from klamm.client.producer.batch import BatchState, PendingBatch, check_record, record_size_bytes
from klamm.client.producer.errors import RecordTooLarge
from klamm.client.producer.lane import PartitionLane
from klamm.client.producer.outcome import Delivery, Operation
from klamm.client.producer.producer_config import ProducerConfig
from klamm.protocol.record_batch import HEADER_SIZE_BYTES
from klamm.protocol.records import Header, UnstampedRecord, decode_batch
from klamm.protocol.types import Millis, TopicPartition

__all__ = ["Accumulator"]


class Accumulator:
    """All batches of a producer that have not ended."""

    def __init__(self, config: ProducerConfig) -> None:
        self.active: dict[TopicPartition, PartitionLane] = {}
        """The partitions that have batches, in the order in which they are served."""
        self.used_bytes = 0
        """Memory of the batches, at most `buffer.memory`."""
        self.unfinished = 0
        """Number of batches that have not ended."""
        self.has_closed_batch = False
        """Whether a batch was closed after the last check, so that a request can be sent."""
        self._config = config
        self._lanes: dict[TopicPartition, PartitionLane] = {}

    def append(self, topic_partition: TopicPartition, record: UnstampedRecord, now: Millis) -> Delivery | None:
        """Adds a record to the open batch of its partition, or to a new one. Returns None if memory is full.

        Raises `RecordTooLarge`, and `TypeError` if the record can't be encoded.
        """
        timestamp_ms, key, value, headers = record
        # Most records need no trial, which takes longer than all the rest.
        if (
            (headers and not _are_plain(headers))
            or type(timestamp_ms) is not int
            or timestamp_ms.bit_length() > 63
            or not (key is None or type(key) is bytes)
            or not (value is None or type(value) is bytes)
        ):
            check_record(record)
        size_bytes = record_size_bytes(key, value, headers)
        # Inline for speed, as there is one call for each record.
        lane = self.active.get(topic_partition)
        batch = lane.queue[-1] if lane is not None and lane.queue else None
        if batch is not None and batch.state is not BatchState.OPEN:
            batch = None
        if batch is not None and batch.size_bytes + size_bytes > self._config.batch_size_bytes:
            self._close(batch)
            batch = None
        reserved_bytes = size_bytes if batch is not None else size_bytes + HEADER_SIZE_BYTES
        if self.used_bytes + reserved_bytes > self._config.buffer_memory_bytes:
            self._check_size(HEADER_SIZE_BYTES + size_bytes, "the record")
            self.close_open_batches()
            return None
        if batch is None:
            self._check_size(HEADER_SIZE_BYTES + size_bytes, "the record")
            batch = PendingBatch(topic_partition, now)
            self._add(batch)
        self.used_bytes += reserved_bytes
        batch.reserved_bytes += reserved_bytes
        return batch.append(record, size_bytes)

    def append_finished(
        self, topic_partition: TopicPartition, encoded: bytes | memoryview, now: Millis
    ) -> Delivery | None:
        """Adds a finished batch after the records of its partition. Returns None if memory is full.

        Raises `RecordTooLarge`, and `KafkaError` as `PendingBatch.finished`.
        """
        self._check_size(len(encoded), "the finished batch")
        if self.used_bytes + len(encoded) > self._config.buffer_memory_bytes:
            self.close_open_batches()
            return None
        batch = PendingBatch.finished(topic_partition, encoded, now)
        lane = self.active.get(topic_partition)
        if lane is not None and lane.open_batch is not None:
            self._close(lane.open_batch)
        self._add(batch)
        self.used_bytes += batch.reserved_bytes
        self.has_closed_batch = True
        return Delivery(batch, 0)

    def close_open_batches(self) -> None:
        """Makes all batches ready to be sent."""
        for lane in self.active.values():
            if (batch := lane.open_batch) is not None:
                self._close(batch)

    def flush(self) -> Operation:
        """Makes all batches ready. Returns an operation that ends when all batches that exist now have ended."""
        self.close_open_batches()
        operation = Operation("flush")
        batches = [batch for lane in self.active.values() for batch in lane.unfinished()]
        remaining = len(batches)
        if not batches:
            operation.end()

        def batch_ended() -> None:
            nonlocal remaining
            remaining -= 1
            if not remaining:
                operation.end()

        for batch in batches:
            batch.add_callback(batch_ended)
        return operation

    def encode(self, batch: PendingBatch) -> None:
        """Closes and encodes a batch before it is sent for the first time."""
        if batch.state is BatchState.OPEN:
            batch.state = BatchState.CLOSED
        if batch.encoded is None:
            batch.encode(self._config.compression, self._config.compression_level)
            self.used_bytes += batch.size_bytes - batch.reserved_bytes
            batch.reserved_bytes = batch.size_bytes

    def finish(self, batch: PendingBatch, error: Exception | None = None, base_offset: int = -1) -> None:
        """Ends a batch and frees its memory."""
        self.used_bytes -= batch.reserved_bytes
        self.unfinished -= 1
        batch.end(error, base_offset)

    def split(self, lane: PartitionLane, batch: PendingBatch) -> None:
        """Replaces a batch that the broker finds too large by batches of half its size or less."""
        # The batch is divided by the uncompressed size of the records, because half of the records may compress badly.
        parts = batch.split(max(HEADER_SIZE_BYTES, plain_size_bytes(batch) // 2))
        self.used_bytes -= batch.reserved_bytes
        self.unfinished -= 1
        for part in parts:
            part.encode(self._config.compression, self._config.compression_level)
            part.reserved_bytes = part.size_bytes
            self.used_bytes += part.size_bytes
            self.unfinished += 1
        lane.replace(batch, parts)

    def prune(self) -> None:
        """Forgets the active partitions that have no batch any more."""
        for topic_partition in [key for key, lane in self.active.items() if lane.is_empty]:
            del self.active[topic_partition]

    def _add(self, batch: PendingBatch) -> None:
        lane = self._lanes.get(batch.topic_partition)
        if lane is None:
            lane = self._lanes[batch.topic_partition] = PartitionLane(
                batch.topic_partition,
                is_idempotent=self._config.enable_idempotence,
                most_in_flight=self._config.max_in_flight,
            )
        lane.queue.append(batch)
        self.active[batch.topic_partition] = lane
        self.unfinished += 1

    def _close(self, batch: PendingBatch) -> None:
        batch.state = BatchState.CLOSED
        self.has_closed_batch = True

    def _check_size(self, size_bytes: int, subject: str) -> None:
        for key, limit in (
            ("max.request.size", self._config.max_request_size_bytes),
            ("buffer.memory", self._config.buffer_memory_bytes),
        ):
            if size_bytes > limit:
                raise RecordTooLarge(
                    f"{subject} has {size_bytes} bytes, more than {key}={limit}: raise that (and max.message.bytes of "
                    "the topic), or send less at once"
                )


def plain_size_bytes(batch: PendingBatch) -> int:
    """Returns the size of an encoded batch without compression, or an upper limit for it."""
    assert batch.encoded is not None
    return HEADER_SIZE_BYTES + sum(
        record_size_bytes(record.key, record.value, record.headers) for record in decode_batch(batch.encoded)
    )


def _are_plain(headers: Sequence[Header]) -> bool:
    """Returns whether the headers have the usual types, and can certainly be encoded."""
    for header in headers:
        if not isinstance(header, tuple) or len(header) != 2:
            return False
        name, content = header
        if type(name) is not str or not name.isascii() or not (content is None or type(content) is bytes):
            return False
    return True

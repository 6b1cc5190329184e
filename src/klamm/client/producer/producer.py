"""The blocking producer: no thread of its own, several brokers at once.

All I/O happens within the methods: `send` and `send_batch` do as much as goes without waiting, and wait only while
`buffer.memory` is full; `poll`, `flush` and the methods of a transaction wait. A caller that pauses after `send` calls
`poll`, so that batches leave after `linger.ms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from klamm.client.producer.config import ProducerConfig
from klamm.client.producer.outcome import Delivery
from klamm.client.producer.transactions import GroupMember, OffsetToCommit
from klamm.protocol.records import Header
from klamm.protocol.types import Millis, TopicPartition

__all__ = ["BlockingProducer"]


class BlockingProducer:
    """A producer of one cluster, for one thread at a time: `with BlockingProducer(config) as producer: …`.

    Idempotent by default: each record that is acknowledged is in its partition exactly once and in the order of the
    calls, over retries, lost answers and changes of leaders. Leaving the `with` block flushes; leaving it with an
    exception drops what was not sent, and aborts an open transaction.
    Methods raise `BufferFull` and `GaveUp` when they wait longer than `max.block.ms`, `ProducerFenced` and other
    `ProducerFailed` when the producer can't be used any more, `AuthenticationFailed` when a broker does not accept the
    client.
    """

    def __init__(self, config: ProducerConfig) -> None:
        """Connects nowhere yet."""
        raise NotImplementedError

    def partitions_of(self, topic: str) -> int:
        """Returns the number of the topic's partitions. Raises `PartitionMissing` if the topic does not exist."""
        raise NotImplementedError

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Sequence[Header] = (),
        timestamp_ms: Millis | None = None,
    ) -> Delivery:
        """Adds one record to a batch of its partition.

        Without `partition` the partitioner chooses; without `timestamp_ms` the record gets the present time. Raises
        `RecordTooLarge`, `PartitionMissing`, and `TransactionMustAbort` when the transaction has failed.
        """
        raise NotImplementedError

    def send_batch(self, topic: str, partition: int, batch: bytes | memoryview) -> Delivery:
        """Adds one finished record batch (magic 2); the delivery's offset is that of its first record.

        Producer id, epoch, sequence, the transactional bit, base offset and leader epoch in the header are ignored and
        set by the producer; everything else is written as it is. The bytes must not change until the delivery ends.
        Raises `KafkaError`: CORRUPT_MESSAGE if the CRC does not match, INVALID_RECORD for anything but one whole batch
        of consecutive offsets with timestamps of its producer; `RecordTooLarge` if it is larger than
        `max.request.size`, since finished batches are not split.
        """
        raise NotImplementedError

    def poll(self, timeout_ms: Millis = Millis(0)) -> None:
        """Sends and receives for up to this time; returns earlier when nothing is under way."""
        raise NotImplementedError

    def flush(self, timeout_ms: Millis | None = None) -> None:
        """Waits until all records sent so far have ended, with success or not. Raises `GaveUp` after the timeout."""
        raise NotImplementedError

    def init_transactions(self) -> None:
        """Gets producer id and epoch for the transactional id: fences its earlier producers and ends their open
        transaction. Call it once, before `begin_transaction`."""
        raise NotImplementedError

    def begin_transaction(self) -> None:
        """Begins a transaction; records sent from here on belong to it."""
        raise NotImplementedError

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetToCommit], group_id: str, member: GroupMember | None = None
    ) -> None:
        """Commits a group's offsets in the transaction: they become visible if and when the transaction commits.

        Without `member` the group is treated as one without members. A member that is fenced or of an old generation
        makes the transaction fail (`TransactionMustAbort`).
        """
        raise NotImplementedError

    def commit_transaction(self) -> None:
        """Flushes and commits. When it returns, all records and offsets of the transaction are committed.

        Raises `TransactionMustAbort` if a record or the offsets failed: abort then. After `GaveUp` the outcome is open;
        call it again to wait on for the same commit.
        """
        raise NotImplementedError

    def abort_transaction(self) -> None:
        """Aborts: drops what was not sent, and makes nothing of the transaction visible to `read_committed`."""
        raise NotImplementedError

    def close(self, timeout_ms: Millis | None = None) -> None:
        """Flushes and closes the connections. Deliveries that have not ended by then fail with `ProducerClosed`; an
        open transaction is left to be aborted by the next producer of its id. Safe to call twice."""
        raise NotImplementedError

    def __enter__(self) -> BlockingProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        raise NotImplementedError

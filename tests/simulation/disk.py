"""The log of `__consumer_offsets` as its replicas hold it, and how it fails.

The module models the effects of replication, not the replicas. The high watermark follows the log end with a delay, and
stands still while replicas are slow. When the leader changes, records above the high watermark may be lost; records
below it are never lost. With `replication_ms` of (0, 0) the log has one replica that writes through. For a coordinator
it makes no difference whether a commit waits for replicas or for the disk (`klamm.fsync=ack`), or which of the two
loses the tail.

Torn writes and flipped bits do not reach a coordinator. A log truncates a torn write before it answers, as after any
failed append, and a flipped bit takes the partition offline (`Cluster.fail_disk`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple, Protocol

from tests.simulation.loop import EventLoop, Process
from tests.simulation.producers import Producers

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.records import UnstampedRecord, decode_batch, encode_batch, read_batch_header, restamp
from klamm.protocol.types import LeaderEpoch, Offset, PartitionIndex, ProducerId

__all__ = ["STATE_PARTITION", "Batch", "BrokerLog", "Disk", "DiskObserver", "Replicas"]

STATE_PARTITION = PartitionIndex(1_000)
"""The only partition of `__transaction_state`. Its number differs from those of `__consumer_offsets`."""
_NO_PRODUCER = ProducerId(-1)


class Batch(NamedTuple):
    """One batch in the log. Compaction may leave gaps between batches."""

    base_offset: Offset
    next_offset: Offset
    data: bytes
    producer_id: ProducerId = _NO_PRODUCER
    """The producer whose transaction the batch belongs to, or ends; -1 if there is none."""
    is_control: bool = False


class DiskObserver(Protocol):
    """An observer of the log's appends, truncations and high watermarks."""

    def on_appended(self, partition: PartitionIndex, batch: Batch) -> None: ...

    def on_refused(self, partition: PartitionIndex) -> None: ...

    def on_truncated(self, partition: PartitionIndex, end_offset: Offset) -> None: ...

    def on_high_watermark(self, partition: PartitionIndex, high_watermark: Offset) -> None: ...


class Replicas:
    """One partition of an internal topic, with the state of its replicas."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.log_end_offset = Offset(0)
        self.high_watermark = Offset(0)
        self.committed = Offset(0)
        """The highest high watermark so far: no record below it may be lost."""
        self.leader = -1
        self.process: Process | None = None
        """The process of the leader."""
        self.leader_epoch = LeaderEpoch(-1)
        self.are_slow = False
        self.listeners: list[Callable[[Offset], None]] = []
        self.producers = Producers()


class _Listener:
    def __init__(self, replicas: Replicas, callback: Callable[[Offset], None]) -> None:
        self._replicas = replicas
        self._callback = callback
        replicas.listeners.append(callback)

    def cancel(self) -> None:
        if self._callback in self._replicas.listeners:
            self._replicas.listeners.remove(self._callback)


class Disk:
    """All partitions of the internal topics, on all brokers."""

    def __init__(
        self,
        loop: EventLoop,
        observer: DiskObserver,
        *,
        partitions: Iterable[PartitionIndex],
        replication_ms: tuple[int, int],
        max_batch_bytes: int,
    ) -> None:
        self._loop = loop
        self._observer = observer
        self.replication_ms = replication_ms
        self.max_batch_bytes = max_batch_bytes
        self.append_error: ErrorCode | None = None
        self.append_error_rate = 0.0
        self.watch: Callable[[PartitionIndex, Batch], None] | None = None
        """Receives each batch when it is written, before any follower can have it."""
        self.read_ms = 0
        """Duration of a read of a few batches. A slow disk makes loading long."""
        self.replicas = {partition: Replicas() for partition in partitions}

    # The leader

    def append(
        self, broker_id: int, partition: PartitionIndex, batch: bytes, *, guard: int = 0, transaction_version: int = 0
    ) -> Offset:
        """Appends a batch as the leader, and returns its last offset.

        Raises KafkaError, and writes nothing, if the broker is not the leader, the disk fails, the batch is too large,
        or the batch belongs to a transaction that has ended.
        """
        replicas = self.replicas[partition]
        if replicas.leader != broker_id:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self.append_error is not None and self._loop.chance(self.append_error_rate):
            self._observer.on_refused(partition)
            raise KafkaError(self.append_error)
        if len(batch) > self.max_batch_bytes:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE)
        base_offset = replicas.log_end_offset
        prefix, rest = restamp(batch, base_offset, replicas.leader_epoch)
        stamped = bytes(prefix) + bytes(rest)
        header = read_batch_header(stamped)
        next_offset = header.next_offset
        if header.has_producer_id:
            replicas.producers.append(header, stamped, guard, transaction_version)
        written = Batch(base_offset, next_offset, stamped, ProducerId(header.producer_id), header.is_control)
        replicas.batches.append(written)
        replicas.log_end_offset = next_offset
        self._observer.on_appended(partition, written)
        if self.watch is not None:
            self.watch(partition, written)
        self._replicate(partition, is_appending=True)
        return Offset(next_offset - 1)

    def read(self, partition: PartitionIndex, offset: Offset) -> bytes:
        """Returns a few batches, from the batch that contains `offset` on."""
        batches = self.replicas[partition].batches
        first = bisect_right(batches, offset, key=lambda batch: batch.next_offset)
        return b"".join(batch.data for batch in batches[first : first + 8])

    def listen(self, partition: PartitionIndex, callback: Callable[[Offset], None]) -> _Listener:
        """Passes each new high watermark to `callback`."""
        return _Listener(self.replicas[partition], callback)

    # The replicas

    def _replicate(self, partition: PartitionIndex, *, is_appending: bool = False) -> None:
        replicas = self.replicas[partition]
        if replicas.are_slow:
            return
        low, high = self.replication_ms
        reached = partial(self._follow, partition, replicas.leader_epoch, replicas.log_end_offset)
        if high == 0 and is_appending:
            reached()
        else:
            at_ms = self._loop.now_ms + self._loop.between(low, high)
            self._loop.call_at(at_ms, reached, replicas.process, is_message=True)

    def _follow(self, partition: PartitionIndex, leader_epoch: LeaderEpoch, offset: Offset) -> None:
        replicas = self.replicas[partition]
        # Only the current leader may raise the high watermark.
        if replicas.leader_epoch != leader_epoch or replicas.leader < 0 or replicas.are_slow:
            return
        if offset > replicas.high_watermark:
            replicas.high_watermark = offset
            if offset > replicas.committed:
                replicas.committed = offset
                self._observer.on_high_watermark(partition, offset)
            for listener in list(replicas.listeners):
                listener(offset)

    def set_slow(self, partition: PartitionIndex, are_slow: bool) -> None:
        """Stops the followers of a partition, or lets them catch up."""
        self.replicas[partition].are_slow = are_slow
        if not are_slow:
            self._replicate(partition)

    # The controller

    def resign(self, partition: PartitionIndex) -> None:
        """Removes the leader of a partition. The leader is dead, or soon learns that it is not the leader any more."""
        replicas = self.replicas[partition]
        replicas.leader = -1
        replicas.listeners.clear()

    def elect(
        self,
        partition: PartitionIndex,
        broker_id: int,
        process: Process,
        *,
        loses_tail: bool,
        knows_high_watermark: bool,
    ) -> None:
        """Makes an in-sync replica the leader. It may lack uncommitted records, and learns the high watermark from its
        own followers.
        """
        replicas = self.replicas[partition]
        replicas.leader, replicas.process = broker_id, process
        replicas.leader_epoch = LeaderEpoch(replicas.leader_epoch + 1)
        if loses_tail:
            self._lose_tail(partition)
        replicas.producers.load(batch.data for batch in replicas.batches if batch.producer_id >= 0)
        if not knows_high_watermark and self.replication_ms[1] > 0:
            replicas.high_watermark = Offset(self._loop.between(0, replicas.high_watermark))
        self._replicate(partition)

    def _lose_tail(self, partition: PartitionIndex) -> None:
        replicas = self.replicas[partition]
        kept = [batch for batch in replicas.batches if batch.next_offset <= replicas.committed]
        tail = replicas.batches[len(kept) :]
        kept += tail[: self._loop.between(0, len(tail))]
        if len(kept) == len(replicas.batches):
            return
        end_offset = replicas.batches[len(kept)].base_offset
        replicas.batches = kept
        replicas.log_end_offset = end_offset
        replicas.high_watermark = min(replicas.high_watermark, end_offset)
        self._observer.on_truncated(partition, end_offset)

    # The cleaner

    def compact(self, partition: PartitionIndex, *, drops_tombstones: bool) -> None:
        """Keeps the latest record of each key among the committed records; offsets do not change.

        With `drops_tombstones`, tombstones are removed as well: the caller has made sure that they are old enough and
        that no reader needs them. Batches of transactions stay, and so does the tombstone of a key that a transaction
        has written.
        """
        replicas = self.replicas[partition]
        cleanable = [batch for batch in replicas.batches if batch.next_offset <= replicas.high_watermark]
        rest = replicas.batches[len(cleanable) :]
        kept = [batch for batch in cleanable if batch.producer_id >= 0]
        in_transactions = {record.key for batch in kept for record in decode_batch(batch.data)}
        records = [record for batch in cleanable if batch.producer_id < 0 for record in decode_batch(batch.data)]
        latest = {record.key: record.offset for record in records}
        for record in records:
            if latest[record.key] != record.offset or (
                record.value is None and drops_tombstones and record.key not in in_transactions
            ):
                continue
            unstamped: UnstampedRecord = (record.timestamp_ms, record.key, record.value, ())
            data = encode_batch([unstamped], base_offset=record.offset, partition_leader_epoch=0)
            kept.append(Batch(Offset(record.offset), Offset(record.offset + 1), data))
        replicas.batches = sorted(kept, key=lambda batch: batch.base_offset) + rest


class BrokerLog:
    """The log as one broker's coordinator sees it: the port `CoordinatorLog`.

    `on_read` receives the duration of each read. `first` is the partition on the disk that holds the topic's partition
    0.
    """

    def __init__(
        self,
        disk: Disk,
        broker_id: int,
        on_read: Callable[[int], None],
        first: PartitionIndex = PartitionIndex(0),  # noqa: B008 - a NewType of int
    ) -> None:
        self._first = first
        self._disk = disk
        self._broker_id = broker_id
        self._on_read = on_read

    @property
    def max_batch_bytes(self) -> int:
        return self._disk.max_batch_bytes

    def append(
        self, partition: PartitionIndex, batch: bytes, *, verification_guard: int = 0, transaction_version: int = 0
    ) -> Offset:
        return self._disk.append(
            self._broker_id,
            self._on_disk(partition),
            batch,
            guard=verification_guard,
            transaction_version=transaction_version,
        )

    def _on_disk(self, partition: PartitionIndex) -> PartitionIndex:
        return PartitionIndex(self._first + partition)

    def read(self, partition: PartitionIndex, offset: Offset) -> bytes:
        self._on_read(self._disk.read_ms)
        return self._disk.read(self._on_disk(partition), offset)

    def log_start_offset(self, partition: PartitionIndex) -> Offset:
        return Offset(0)

    def log_end_offset(self, partition: PartitionIndex) -> Offset:
        return self._disk.replicas[self._on_disk(partition)].log_end_offset

    def high_watermark(self, partition: PartitionIndex) -> Offset:
        return self._disk.replicas[self._on_disk(partition)].high_watermark

    def on_high_watermark(self, partition: PartitionIndex, callback: Callable[[Offset], None]) -> _Listener:
        return self._disk.listen(self._on_disk(partition), callback)

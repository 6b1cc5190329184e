"""The blocking producer: without a thread, for several brokers at the same time. All I/O happens within the methods:
`send` and `send_batch` do as much as possible without waiting, and wait only while `buffer.memory` is full; `poll`,
`flush` and the methods of a transaction wait. A caller that pauses after `send` calls `poll`, so that batches are sent
after `linger.ms`.
"""

from __future__ import annotations

import contextlib
import selectors
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Final

from klamm.client.config import Address
from klamm.client.connection import Connection
from klamm.client.errors import ConnectionFailed
from klamm.client.producer.actions import Connect, Disconnect, Send
from klamm.client.producer.batch import ProducerIdentity
from klamm.client.producer.errors import ProducerClosed
from klamm.client.producer.front import ProducerFront
from klamm.client.producer.outcome import Delivery, Operation
from klamm.client.producer.producer_config import ProducerConfig
from klamm.client.producer.transactions import GroupMember, OffsetToCommit
from klamm.client.producer.wire import Wire
from klamm.errors import KlammError
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.records import Header, UnstampedRecord
from klamm.protocol.types import Millis, TopicPartition

__all__ = ["BlockingProducer"]

_AT_ONCE: Final = Millis(0)
_PAUSE_MS: Final = 1_000
"""If a longer time passes between two calls, this time does not count for the timeouts of the batches, nor for those of
requests that are not completely written."""


class BlockingProducer:
    """A producer of one cluster, for one thread at a time: `with BlockingProducer(config) as producer: …`.

    Idempotent by default: each record that is acknowledged is in its partition exactly once and in the order of the
    calls, also after retries, lost answers and changes of leaders. Leaving the `with` block flushes; leaving it with an
    exception drops what was not sent, and aborts an open transaction. Methods raise `BufferFull` and `GaveUp` when they
    wait longer than `max.block.ms`, `ProducerFenced` and other `ProducerFailed` when the producer can't be used any
    more, as when a broker does not accept the client.
    """

    def __init__(self, config: ProducerConfig) -> None:
        """Opens no connection yet."""
        self._front = ProducerFront(config)
        self._machine = self._front.machine
        self._config = config
        self._selector = selectors.DefaultSelector()
        self._wires: dict[Address, Wire] = {}
        self._to_open: deque[Address] = deque()
        self._due: float = 0
        self._acted_at = _now()
        """The end of the last call that sent and received."""
        self._is_closed = False

    # Records.

    @property
    def buffered_bytes(self) -> int:
        """Memory of the records that are not acknowledged yet, of `buffer.memory`."""
        return self._machine.used_bytes

    def partitions_of(self, topic: str, *, at_least: int = 1) -> int:
        """Returns the number of the topic's partitions. If the metadata have fewer than `at_least`, refreshes them
        once, because the topic may have grown. Raises `PartitionMissing` if the topic does not exist."""
        limit_ms = Millis(self._config.max_block_ms)
        count = self._front.count(topic)
        if count is not None and self._machine.metadata_are_old(_now()):
            # A caller that only counts never lets the machine act otherwise, and would not see new partitions.
            if self._wait(lambda: not self._machine.metadata_are_old(_now()), limit_ms):
                count = self._front.count(topic)
            else:
                self._machine.keep_metadata(_now())
        if count is not None and count < at_least:
            self._wait(self._machine.refresh_topic(topic, _now()), limit_ms)
            count = self._front.count(topic)
        if count is None:
            if not self._wait(lambda: self._front.count(topic) is not None, limit_ms):
                raise self._front.topic_missing(topic)
            count = self._front.count(topic)
            assert count is not None
        return count

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
        known = self._machine.view.topic(topic)
        count = 0 if known is None else len(known.partitions)
        at_least = 1 if partition is None else partition + 1
        if count < at_least:
            count = self.partitions_of(topic, at_least=at_least)
        place = self._front.place(topic, partition, key, value, count)
        record: UnstampedRecord = (
            time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms,
            key,
            value,
            headers,
        )
        now = _now()
        delivery = self._machine.send(place, record, now)
        if delivery is None:
            delivery = self._once_there_is_room(lambda: self._machine.send(place, record, _now()))
        self._after_send(delivery, now)
        return delivery

    def send_batch(self, topic: str, partition: int, batch: bytes | memoryview) -> Delivery:
        """Adds one finished record batch (magic 2); the delivery's offset is that of its first record.

        Producer id, epoch, sequence, the transactional bit, base offset and leader epoch in the header are ignored and
        set by the producer; everything else is written as it is. The bytes must not change until the delivery ends.
        Raises `KafkaError`: CORRUPT_MESSAGE if the CRC does not match, INVALID_RECORD for anything but one whole batch
        of consecutive offsets with timestamps of its producer; `RecordTooLarge` if it is larger than
        `max.request.size`, since finished batches are not split.
        """
        count = self.partitions_of(topic, at_least=partition + 1)
        place = self._front.place(topic, partition, None, None, count)
        now = _now()
        delivery = self._machine.send_batch(place, batch, now)
        if delivery is None:
            delivery = self._once_there_is_room(lambda: self._machine.send_batch(place, batch, _now()))
        self._after_send(delivery, now)
        return delivery

    def poll(self, timeout_ms: Millis = _AT_ONCE) -> None:
        """Sends and receives for up to this time; returns earlier when no request or delivery is in progress."""
        self._wait(lambda: not self._machine.unfinished_batches, timeout_ms)

    def flush(self, timeout_ms: Millis | None = None) -> None:
        """Waits until all records sent so far have ended, with success or not. Raises `GaveUp` after the timeout."""
        operation = self._machine.flush()
        # Each batch ends within delivery.timeout.ms and the time of one request.
        if not self._wait(lambda: operation.is_done, timeout_ms):
            raise self._front.gave_up(operation.name, timeout_ms or _AT_ONCE)

    # Transactions.

    @property
    def identity(self) -> ProducerIdentity:
        """Producer id and epoch; `NO_IDENTITY` before they are known. After `init_transactions`, the epoch is 0 if the
        coordinator knew no earlier producer of the transactional id."""
        return self._machine.identity

    def init_transactions(self) -> None:
        """Gets producer id and epoch for the transactional id: fences its earlier producers and ends their open
        transaction. Call it once, before `begin_transaction`."""
        self._complete(self._machine.init_transactions())

    def begin_transaction(self) -> None:
        """Begins a transaction; records sent from here on belong to it."""
        if (operation := self._machine.when_ready()) is not None:
            self._complete(operation)
        self._machine.begin()

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetToCommit], group_id: str, member: GroupMember | None = None
    ) -> None:
        """Commits a group's offsets in the transaction: they become visible if and when the transaction commits.

        Without `member`, the offsets are committed as for a group without members. If the member is fenced or of an old
        generation, the transaction fails (`TransactionMustAbort`).
        """
        if offsets:
            self._complete(self._machine.send_offsets(offsets, group_id, member))

    def commit_transaction(self) -> None:
        """Flushes and commits. When it returns, all records and offsets of the transaction are committed.

        Raises `TransactionMustAbort` if a record or the offsets failed: abort then. After `GaveUp` the outcome is open;
        call the method again to continue to wait for the same commit.
        """
        self._complete(self._machine.end_transaction(commits=True))

    def abort_transaction(self) -> None:
        """Aborts: drops the records that were not sent. `read_committed` consumers see no record of the transaction."""
        self._complete(self._machine.end_transaction(commits=False))

    # The end.

    def close(self, timeout_ms: Millis | None = None) -> None:
        """Flushes and closes the connections. Deliveries that have not ended by then fail with `ProducerClosed`; an
        open transaction is left to be aborted by the next producer of its id. With a timeout of 0, what can be sent at
        once is sent, and no answer is waited for. Safe to call twice."""
        if self._is_closed:
            return
        try:
            operation = self._machine.flush()
            self._wait(lambda: operation.is_done, timeout_ms)
        finally:
            self._is_closed = True
            for wire in self._wires.values():
                wire.connection.close()
            self._wires.clear()
            self._selector.close()
            self._machine.close()

    def __enter__(self) -> BlockingProducer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        # The exception that is being raised says more than an error of the abort.
        try:
            with contextlib.suppress(Exception):
                if self._config.transactional_id is not None and self._machine.failure is None:
                    self.abort_transaction()
        finally:
            self.close(_AT_ONCE)

    # Waiting.

    def _once_there_is_room(self, attempt: Callable[[], Delivery | None]) -> Delivery:
        found: Delivery | None = None

        def has_room() -> bool:
            nonlocal found
            found = attempt()
            return found is not None

        if not self._wait(has_room, Millis(self._config.max_block_ms)):
            raise self._front.buffer_full()
        assert found is not None
        return found

    def _after_send(self, delivery: Delivery, now: Millis) -> None:
        if delivery.is_first:
            self._due = min(self._due, now + self._config.linger_ms)
        if self._machine.take_ready_sign() or now >= self._due:
            self._turn(_AT_ONCE)

    def _complete(self, operation: Operation) -> None:
        timeout_ms = Millis(self._config.max_block_ms)
        if not self._wait(lambda: operation.is_done, timeout_ms):
            raise self._front.gave_up(operation.name, timeout_ms, self._machine.waits_because)
        self._machine.seen(operation)
        if operation.error is not None:
            raise operation.error

    def _wait(self, is_done: Callable[[], bool], timeout_ms: Millis | None) -> bool:
        """Sends and receives until the condition holds. Returns whether it does, at the latest after the timeout."""
        deadline = float("inf") if timeout_ms is None else _now() + timeout_ms
        self._turn(_AT_ONCE)
        while not is_done():
            remaining_ms = deadline - _now()
            self._turn(max(remaining_ms, 0))
            if remaining_ms <= 0:
                return is_done()
        return True

    # Input and output.

    def _turn(self, timeout_ms: float) -> None:
        """Waits up to this time for input or for the machine's next time, and does what the machine asks then."""
        if self._is_closed:
            raise ProducerClosed("the producer is closed")
        now = _now()
        if now - self._acted_at >= _PAUSE_MS:
            # The caller was busy: nothing was sent in this time, and no answer was read.
            self._machine.skip(Millis(now - self._acted_at), now)
            self._skip_unwritten(Millis(now - self._acted_at))
        timeout_ms = min(timeout_ms, max(self._due - now, 0))
        # epoll does not accept a longer wait.
        self._exchange_ready(min(timeout_ms, 3_600_000))
        self._act()

    def _skip_unwritten(self, pause_ms: Millis) -> None:
        """Adds a pause to the time of the requests that a broker can't answer, because it has only a part of them."""
        for wire in self._wires.values():
            self._machine.skip_unwritten(pause_ms, wire.address, wire.connection.unsent_requests)

    def _exchange_ready(self, timeout_ms: float) -> None:
        for key, _ in self._selector.select(timeout_ms / 1000):
            self._exchange(key.data)

    def _act(self) -> None:
        """Does what the machine asks, up to a connection that fails: the next one may take as long, and the caller may
        have no more time."""
        while True:
            actions = self._machine.poll(_now())
            self._to_open.extend(action.address for action in actions if isinstance(action, Connect))
            for action in actions:
                if isinstance(action, Send):
                    self._send(action)
                elif isinstance(action, Disconnect):
                    self._disconnect(action.address)
            if self._to_open:
                if not self._open(self._to_open.popleft()):
                    self._due = _AT_ONCE
                    break
            elif not actions:
                self._due = self._machine.next_time()
                break
        self._acted_at = _now()

    def _open(self, address: Address) -> bool:
        began_at = _now()
        self._connect(address)
        # That may have taken long: read the answers of other brokers before they count as overdue.
        self._skip_unwritten(Millis(_now() - began_at))
        self._exchange_ready(_AT_ONCE)
        return address in self._wires

    def _connect(self, address: Address) -> None:
        try:
            connection = Connection(address, self._config.client)
        except ConnectionFailed as error:
            self._machine.disconnected(address, error, _now())
        except KlammError as error:
            self._machine.fail(error)
        except BaseException as error:
            # For example KeyboardInterrupt: the caller may call again, and then the connection is opened again.
            self._machine.disconnected(address, ConnectionFailed(f"interrupted: {error!r}"), _now())
            raise
        else:
            self._wires[address] = wire = Wire(address, connection)
            self._selector.register(connection, selectors.EVENT_READ, wire)
            self._machine.connected(address, connection.offers)

    def _send(self, action: Send) -> None:
        # The connection may have broken since the machine decided; the machine knows about that already.
        if (wire := self._wires.get(action.address)) is None:
            return
        try:
            pending = wire.connection.enqueue(
                action.api_key,
                action.version,
                action.body,
                flexible=action.is_flexible,
                has_response=action.has_response,
            )
            (wire.pending if action.has_response else wire.unanswered).append((action.request_id, pending))
            self._write(wire)
        except ConnectionFailed as error:
            self._lose(wire, error)
        except KlammError as error:  # the broker does not accept the client any more
            self._machine.fail(error)
            self._lose(wire, ConnectionFailed(str(error)))

    def _exchange(self, wire: Wire) -> None:
        if self._wires.get(wire.address) is not wire:
            return
        try:
            self._write(wire)
            wire.connection.read_ready()
            while wire.pending and (body := wire.connection.take(wire.pending[0][1])) is not None:
                request_id, _ = wire.pending.pop(0)
                self._machine.received(wire.address, request_id, body, _now())
        except ConnectionFailed as error:
            self._lose(wire, error)
        except MalformedMessage as error:
            self._lose(wire, ConnectionFailed(f"the broker at {wire.connection.peer} sent a malformed answer: {error}"))

    def _write(self, wire: Wire) -> None:
        wire.connection.write_ready()
        has_unsent = wire.connection.has_unsent
        if not has_unsent:
            for request_id, _ in wire.unanswered:
                self._machine.received(wire.address, request_id, b"", _now())
            wire.unanswered.clear()
        if has_unsent != wire.waits_to_write:
            wire.waits_to_write = has_unsent
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if has_unsent else 0)
            self._selector.modify(wire.connection, events, wire)

    def _lose(self, wire: Wire, error: ConnectionFailed) -> None:
        self._disconnect(wire.address)
        self._machine.disconnected(wire.address, error, _now())

    def _disconnect(self, address: Address) -> None:
        if (wire := self._wires.pop(address, None)) is not None:
            self._selector.unregister(wire.connection)
            wire.connection.close()


def _now() -> Millis:
    """Returns the time of the machine."""
    return Millis(time.monotonic_ns() // 1_000_000)

"""The asyncio producer: the same machine, driven by callbacks of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Final

from klamm.client.aio import AsyncConnection
from klamm.client.config import Address
from klamm.client.conversation import Pending
from klamm.client.errors import ConnectionFailed
from klamm.client.producer.actions import Connect, Disconnect, Send
from klamm.client.producer.errors import ProducerClosed
from klamm.client.producer.front import ProducerFront
from klamm.client.producer.outcome import Delivery, Operation
from klamm.client.producer.producer_config import ProducerConfig
from klamm.client.producer.transactions import GroupMember, OffsetToCommit
from klamm.errors import KlammError
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.records import Header, UnstampedRecord
from klamm.protocol.types import Millis, Offset, TopicPartition

__all__ = ["AsyncProducer"]

_NEVER: Final = float("inf")


class AsyncProducer:
    """The asyncio counterpart of `BlockingProducer`: the same records, transactions, guarantees and errors.

    Belongs to one event loop; any task of the loop may use it, but all tasks share one transaction. Batches are sent
    after `linger.ms` without a further call. If a call is cancelled, the work that it began continues.
    """

    def __init__(self, config: ProducerConfig) -> None:
        """Opens no connection yet; call it in the event loop."""
        self._front = ProducerFront(config)
        self._machine = self._front.machine
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._connections: dict[Address, AsyncConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.TimerHandle | None = None
        self._due: float = _NEVER
        self._changed: asyncio.Future[None] = self._loop.create_future()
        self._is_closed = False

    # Records.

    @property
    def buffered_bytes(self) -> int:
        """Memory of the records that are not acknowledged yet, of `buffer.memory`."""
        return self._machine.used_bytes

    async def partitions_of(self, topic: str, *, at_least: int = 1) -> int:
        """Returns the number of the topic's partitions, as `BlockingProducer.partitions_of`."""
        limit_ms = Millis(self._config.max_block_ms)
        count = self._front.count(topic)
        if count is not None and count < at_least:
            is_refreshed = self._machine.refresh_topic(topic, self._now())
            self._wake()
            await self._wait(is_refreshed, limit_ms)
            count = self._front.count(topic)
        if count is None:
            self._wake()
            if not await self._wait(lambda: self._front.count(topic) is not None, limit_ms):
                raise self._front.topic_missing(topic)
            count = self._front.count(topic)
            assert count is not None
        return count

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Sequence[Header] = (),
        timestamp_ms: Millis | None = None,
    ) -> Delivery:
        """Adds one record to a batch of its partition, as `BlockingProducer.send`. Waits only for the topic's metadata
        and for room in `buffer.memory`; `delivered` waits for the acknowledgement."""
        at_least = 1 if partition is None else partition + 1
        if (count := self._front.count(topic) or 0) < at_least:
            count = await self.partitions_of(topic, at_least=at_least)
        place = self._front.place(topic, partition, key, value, count)
        record: UnstampedRecord = (
            time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms,
            key,
            value,
            headers,
        )
        delivery = self._machine.send(place, record, self._now())
        if delivery is None:
            delivery = await self._once_there_is_room(lambda: self._machine.send(place, record, self._now()))
        self._after_send(delivery)
        return delivery

    async def send_batch(self, topic: str, partition: int, batch: bytes | memoryview) -> Delivery:
        """Adds one finished record batch, as `BlockingProducer.send_batch`."""
        if (count := self._front.count(topic) or 0) <= partition:
            count = await self.partitions_of(topic, at_least=partition + 1)
        place = self._front.place(topic, partition, None, None, count)
        delivery = self._machine.send_batch(place, batch, self._now())
        if delivery is None:
            delivery = await self._once_there_is_room(lambda: self._machine.send_batch(place, batch, self._now()))
        self._after_send(delivery)
        return delivery

    async def delivered(self, delivery: Delivery) -> Offset | None:
        """Waits for the end of a delivery and returns its offset (see `Delivery.offset`), or raises its error."""
        if not delivery.is_done:
            ended = self._loop.create_future()
            delivery.add_callback(lambda: None if ended.done() else ended.set_result(None))
            await ended
        if delivery.error is not None:
            raise delivery.error
        return delivery.offset

    async def flush(self, timeout_ms: Millis | None = None) -> None:
        """Waits until all records sent so far have ended, with success or not. Raises `GaveUp` after the timeout."""
        self._require_open()
        operation = self._machine.flush()
        self._wake()
        if not await self._ended(operation, timeout_ms):
            raise self._front.gave_up(operation.name, timeout_ms or Millis(0))

    # Transactions.

    async def init_transactions(self) -> None:
        """Gets producer id and epoch, as `BlockingProducer.init_transactions`."""
        await self._complete(self._machine.init_transactions())

    async def begin_transaction(self) -> None:
        """Begins a transaction; records sent from here on belong to it."""
        if (operation := self._machine.when_ready()) is not None:
            await self._complete(operation)
        self._machine.begin()

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetToCommit], group_id: str, member: GroupMember | None = None
    ) -> None:
        """Commits a group's offsets in the transaction, as `BlockingProducer.send_offsets`."""
        if offsets:
            await self._complete(self._machine.send_offsets(offsets, group_id, member))

    async def commit_transaction(self) -> None:
        """Flushes and commits, as `BlockingProducer.commit_transaction`."""
        await self._complete(self._machine.end_transaction(commits=True))

    async def abort_transaction(self) -> None:
        """Aborts, as `BlockingProducer.abort_transaction`."""
        await self._complete(self._machine.end_transaction(commits=False))

    # The end.

    async def close(self, timeout_ms: Millis | None = None) -> None:
        """Flushes and closes the connections, as `BlockingProducer.close`. Safe to call twice."""
        if self._is_closed:
            return
        try:
            operation = self._machine.flush()
            self._wake()
            await self._ended(operation, timeout_ms)
        finally:
            self._is_closed = True
            for handle in (self._soon, self._later):
                if handle is not None:
                    handle.cancel()
            for connection in self._connections.values():
                connection.close()
            self._connections.clear()
            for task in self._tasks:
                task.cancel()
            self._machine.close()
            # Waiting calls end, because the producer is closed.
            if not self._changed.done():
                self._changed.set_result(None)

    async def __aenter__(self) -> AsyncProducer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
            return
        # The exception that is being raised says more than an error of the abort.
        try:
            with contextlib.suppress(Exception):
                if self._config.transactional_id is not None and self._machine.failure is None:
                    await self.abort_transaction()
        finally:
            await self.close(Millis(0))

    # Waiting.

    def _now(self) -> Millis:
        return Millis(int(self._loop.time() * 1000))

    def _require_open(self) -> None:
        if self._is_closed:
            raise ProducerClosed("the producer is closed")

    def _after_send(self, delivery: Delivery) -> None:
        if self._machine.take_ready_sign():
            self._wake()
        elif delivery.is_first:
            self._wake_at(self._now() + self._config.linger_ms)

    async def _once_there_is_room(self, attempt: Callable[[], Delivery | None]) -> Delivery:
        found: Delivery | None = None

        def has_room() -> bool:
            nonlocal found
            found = attempt()
            return found is not None

        self._wake()
        if not await self._wait(has_room, Millis(self._config.max_block_ms)):
            raise self._front.buffer_full()
        assert found is not None
        return found

    async def _complete(self, operation: Operation) -> None:
        self._require_open()
        self._wake()
        timeout_ms = Millis(self._config.max_block_ms)
        if not await self._ended(operation, timeout_ms):
            raise self._front.gave_up(operation.name, timeout_ms, self._machine.waits_because)
        self._machine.seen(operation)
        if operation.error is not None:
            raise operation.error

    async def _ended(self, operation: Operation, timeout_ms: Millis | None) -> bool:
        return await self._wait(lambda: operation.is_done, timeout_ms)

    async def _wait(self, is_done: Callable[[], bool], timeout_ms: Millis | None) -> bool:
        """Waits until the condition holds. Returns whether it does, at the latest after the timeout."""
        deadline = None if timeout_ms is None else self._loop.time() + timeout_ms / 1000
        while not is_done():
            self._require_open()
            try:
                async with asyncio.timeout_at(deadline):
                    await asyncio.shield(self._changed)
            except TimeoutError:
                return is_done()
        return True

    # Input and output.

    def _wake(self) -> None:
        """Lets the machine act in this iteration of the loop."""
        if self._soon is None and not self._is_closed:
            self._soon = self._loop.call_soon(self._turn)

    def _wake_at(self, time_ms: float) -> None:
        """Lets the machine act at this time, unless it will have acted earlier."""
        if time_ms >= self._due or self._is_closed:
            return
        if self._later is not None:
            self._later.cancel()
        self._due = time_ms
        # A timer may fire up to a millisecond before its time.
        self._later = self._loop.call_at((time_ms + 1) / 1000, self._wake)

    def _turn(self) -> None:
        self._soon = None
        if self._later is not None:
            self._later.cancel()
            self._later, self._due = None, _NEVER
        while actions := self._machine.poll(self._now()):
            for action in actions:
                if isinstance(action, Connect):
                    self._start(self._connect(action.address))
                elif isinstance(action, Send):
                    self._send(action)
                elif isinstance(action, Disconnect) and (gone := self._connections.pop(action.address, None)):
                    gone.close()
        if (time_ms := self._machine.next_time()) != _NEVER:
            self._wake_at(time_ms)
        # Each waiting call checks its condition again.
        changed, self._changed = self._changed, self._loop.create_future()
        if not changed.done():
            changed.set_result(None)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, address: Address) -> None:
        try:
            connection = await AsyncConnection.open(address, self._config.client)
        except ConnectionFailed as error:
            self._machine.disconnected(address, error, self._now())
        except Exception as error:
            # No caller sees what this task raises, so that it would wait for the connection.
            self._machine.fail(error)
        else:
            self._connections[address] = connection
            self._machine.connected(address, connection.offers)
        self._wake()

    def _send(self, action: Send) -> None:
        # The connection may have broken since the machine decided; the machine knows about that already.
        if (connection := self._connections.get(action.address)) is None:
            return
        try:
            pending = connection.send_body(
                action.api_key,
                action.version,
                action.body,
                flexible=action.is_flexible,
                has_response=action.has_response,
            )
        except ConnectionFailed as error:
            self._lose(action.address, connection, error)
            return
        except KlammError as error:
            self._fail(action.address, connection, error)
            return
        if action.has_response:
            self._start(self._receive(action, connection, pending))
        elif connection.has_unsent:
            self._start(self._write(action, connection))
        else:
            self._machine.received(action.address, action.request_id, b"", self._now())

    async def _receive(self, action: Send, connection: AsyncConnection, pending: Pending) -> None:
        try:
            body = await connection.receive_body(pending)
            self._machine.received(action.address, action.request_id, body, self._now())
        except ConnectionFailed as error:
            self._lose(action.address, connection, error)
        except MalformedMessage as error:
            text = f"the broker at {connection.peer} sent a malformed answer: {error}"
            self._lose(action.address, connection, ConnectionFailed(text))
        except KlammError as error:
            self._fail(action.address, connection, error)
        self._wake()

    async def _write(self, action: Send, connection: AsyncConnection) -> None:
        """Ends a request without a response once its bytes are written: memory stays bounded, and a flush waits."""
        try:
            await connection.written()
            self._machine.received(action.address, action.request_id, b"", self._now())
        except ConnectionFailed as error:
            self._lose(action.address, connection, error)
        except KlammError as error:
            self._fail(action.address, connection, error)
        self._wake()

    def _fail(self, address: Address, connection: AsyncConnection, error: KlammError) -> None:
        """Ends the producer and the records on this connection: the broker does not accept the client any more."""
        self._machine.fail(error)
        self._lose(address, connection, ConnectionFailed(str(error)))

    def _lose(self, address: Address, connection: AsyncConnection, error: ConnectionFailed) -> None:
        connection.close()
        if self._connections.get(address) is connection:
            del self._connections[address]
            self._machine.disconnected(address, error, self._now())

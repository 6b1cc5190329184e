"""Turns a coordinator's shards: a request is decided, written down, made visible and answered, in this order.

For each partition of the internal topic that this broker leads there is a shard. `submit` has it decide; what it
decided is done as the contract of `core.coordinator` says. Everything happens in the calls themselves, in the order
of the calls: on a single node, where the high watermark passes a record as it is appended, `submit` returns the
answer. Where it has to wait for replicas, or for other members, it returns a promise.

After Apache Kafka's `CoordinatorRuntime`, without its threads, snapshots and event queue: nothing is visible before
it is appended, so nothing has to be taken back.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, Generic, TypeVar, cast

from klamm.core.coordinator.contract import (
    ClientContext,
    CoordinatorRecord,
    DeletedTopic,
    Result,
    Shard,
    Ticket,
    TimerKey,
)
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.message import Message
from klamm.protocol.records import UnstampedRecord, encode_batch
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, ProducerEpoch, ProducerId
from klamm.runtime.alarms import AlarmQueue, Alarms
from klamm.runtime.led_partition import LedPartition, PartitionState, Waiting
from klamm.runtime.ports import CoordinatorLog, Promise, Promises, Timers, WallClock
from klamm.runtime.record_serde import RecordSerde
from klamm.runtime.replay import replay_log

__all__ = ["CoordinatorRuntime"]

S = TypeVar("S", bound=Shard)
Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)

_log = logging.getLogger(__name__)

_LOAD_STEP_MS: Final = 5.0
"""Loading gives the event loop back after so long."""
_BATCH_OVERHEAD_BYTES: Final = 61
_RECORD_OVERHEAD_BYTES: Final = 32
_WRITE_TIMEOUT: Final[TimerKey] = ("runtime", "write timeout")
_NO_PRODUCER: Final = (ProducerId(-1), ProducerEpoch(-1))


class _OutOfSync(Exception):
    """The shard and the log tell different stories; only reading the log anew helps."""


class _Asking:
    """The request that is being decided right now, and its answer if there is one already."""

    __slots__ = ("response", "ticket")

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.response: Message | None = None


class CoordinatorRuntime(Generic[S]):
    """The shards of one coordinator on this broker."""

    def __init__(
        self,
        new_shard: Callable[[], S],
        *,
        serde: RecordSerde,
        log: CoordinatorLog,
        timers: Timers,
        wall_clock: WallClock,
        promises: Promises,
        write_timeout_ms: int,
        compression: Compression,
    ) -> None:
        self._new_shard = new_shard
        self._serde = serde
        self._coordinator_log = log
        self._timers = timers
        self._wall_clock = wall_clock
        self._promises = promises
        self._write_timeout_ms = write_timeout_ms
        self._compression = compression
        self._alarm_queue = AlarmQueue(timers)
        self._led: dict[PartitionIndex, LedPartition[S]] = {}
        self._loads: deque[tuple[LedPartition[S], Iterator[Offset]]] = deque()
        self._tickets = count()
        self._parked: dict[Ticket, Promise[Any]] = {}
        self._asking: _Asking | None = None

    # Requests

    def submit(
        self,
        partition: PartitionIndex,
        operation: Callable[[S, Q, ClientContext, Ticket, Millis], Result],
        request: Q,
        context: ClientContext,
        refuse: Callable[[Q, ErrorCode], R],
    ) -> R | Awaitable[R]:
        """Have the partition's shard decide the request.

        `refuse` puts an error into the shape of the API; nothing is raised.
        """
        led = self._led.get(partition)
        if led is None or led.state is not PartitionState.ACTIVE:
            is_loading = led is not None and led.state is PartitionState.LOADING
            code = ErrorCode.coordinator_load_in_progress if is_loading else ErrorCode.not_coordinator
            return refuse(request, code)
        ticket = Ticket(next(self._tickets))
        try:
            result = operation(led.shard, request, context, ticket, self._wall_clock())
        except KafkaError as error:
            return refuse(request, error.code)
        except Exception:
            _log.exception("partition %d: %s failed", partition, type(request).__name__)
            return refuse(request, ErrorCode.unknown_server_error)
        if not result.records and not result.events and len(result.replies) == 1 and led.is_committed:
            # The way of a heartbeat: nothing to write, nothing to wait for.
            answered, response = result.replies[0]
            if answered == ticket:
                self._set_alarms(led, result)
                return cast("R", response)
        asking = self._asking = _Asking(ticket)
        try:
            self._execute(led, result, ticket, partial(refuse, request))
        finally:
            self._asking = None
        if asking.response is not None:
            return cast("R", asking.response)
        promise: Promise[R] = self._promises.create_future()
        self._parked[ticket] = promise
        return promise

    def partitions(self) -> Sequence[PartitionIndex]:
        """The partitions that are led, loaded or not."""
        return list(self._led)

    # Leadership

    def load(self, partition: PartitionIndex, leader_epoch: LeaderEpoch) -> None:
        """Lead the partition: read its log, then answer. Nothing happens if it is led already."""
        led = self._led.get(partition)
        if led is not None and led.state is not PartitionState.FAILED:
            led.leader_epoch = max(led.leader_epoch, leader_epoch)
            return
        led = LedPartition(
            partition, leader_epoch, self._new_shard(), Alarms(self._alarm_queue, partial(self._on_alarm, partition))
        )
        self._led[partition] = led
        steps = replay_log(self._coordinator_log, partition, led.shard, self._serde.deserialize)
        self._loads.append((led, steps))
        if len(self._loads) == 1:
            # The first step is made at once: a partition that is new, or small, answers at once.
            self._load_step()

    def unload(self, partition: PartitionIndex) -> None:
        """Lead the partition no more: whatever waits gets NOT_COORDINATOR."""
        led = self._led.pop(partition, None)
        if led is not None:
            self._close(led)

    def stop(self) -> None:
        """Give up all partitions and wake no more."""
        for partition in list(self._led):
            self.unload(partition)
        self._loads.clear()
        self._alarm_queue.stop()

    def on_metadata_update(self, deleted_topics: Sequence[DeletedTopic]) -> None:
        """Topics were deleted. Partitions that are still loading hear of it afterwards."""
        for led in self._led.values():
            if led.state is PartitionState.ACTIVE:
                self._execute(led, led.shard.on_metadata_update(deleted_topics, self._wall_clock()))
            elif led.state is PartitionState.LOADING:
                led.deleted_topics.extend(deleted_topics)

    def _load_step(self) -> None:
        started_ms = self._timers.now_ms()
        while self._loads and self._timers.now_ms() - started_ms < _LOAD_STEP_MS:
            led, steps = self._loads[0]
            if led.state is not PartitionState.LOADING:
                self._loads.popleft()
                continue
            try:
                finished = next(steps, None) is None
            except Exception:
                _log.exception(
                    "partition %d of the internal topic cannot be read: its groups have no coordinator", led.partition
                )
                led.state = PartitionState.FAILED
                continue
            if finished:
                self._loads.popleft()
                self._activate(led)
        if self._loads:
            self._timers.call_at(self._timers.now_ms(), self._load_step)

    def _activate(self, led: LedPartition[S]) -> None:
        log, partition = self._coordinator_log, led.partition
        led.log_end_offset = log.log_end_offset(partition)
        led.high_watermark = log.high_watermark(partition)
        led.high_watermark_listener = log.on_high_watermark(partition, partial(self._on_high_watermark, led))
        led.state = PartitionState.ACTIVE
        now = self._wall_clock()
        self._execute(led, led.shard.on_loaded(now))
        if led.deleted_topics:
            deleted_topics, led.deleted_topics = led.deleted_topics, []
            self._execute(led, led.shard.on_metadata_update(deleted_topics, now))

    def _close(self, led: LedPartition[S]) -> None:
        was_active = led.state is PartitionState.ACTIVE
        led.state = PartitionState.CLOSED
        led.alarms.cancel_all()
        if led.high_watermark_listener is not None:
            led.high_watermark_listener.cancel()
        while led.waiting:
            self._fail(led, led.waiting.popleft(), ErrorCode.not_coordinator)
        if was_active:
            self._release(led.shard.on_unloaded())

    def _reload(self, led: LedPartition[S]) -> None:
        self.unload(led.partition)
        self.load(led.partition, led.leader_epoch)

    # Decisions

    def _execute(
        self,
        led: LedPartition[S],
        result: Result,
        ticket: Ticket | None = None,
        refuse: Callable[[ErrorCode], Message] | None = None,
    ) -> None:
        """Do what a decision wants done."""
        if led.state is not PartitionState.ACTIVE:
            self._release(result)
            return
        self._set_alarms(led, result)
        for event in result.events:
            _log.info("%s", event)
        waiting = Waiting(led.log_end_offset, result, ticket, refuse, 0.0)
        if result.records:
            try:
                self._append(led, result)
            except KafkaError as error:
                _log.warning("partition %d: append failed: %s", led.partition, error)
                self._fail(led, waiting, error.code)
                return
            except Exception as error:
                expected = isinstance(error, _OutOfSync)
                _log.error("partition %d: %s; reading the log anew", led.partition, error, exc_info=not expected)
                self._fail(led, waiting, ErrorCode.not_coordinator)
                self._reload(led)
                return
            waiting.offset = led.log_end_offset
        if result.on_append is not None:
            result.on_append()
        if led.is_committed:
            self._commit(led, result)
        else:
            self._wait(led, waiting)
            self._release_committed(led)

    def _append(self, led: LedPartition[S], result: Result) -> None:
        """Append and replay the records.

        Raises KafkaError if the log refused them, _OutOfSync if it is not what the shard knows.
        """
        timestamp = self._wall_clock()
        for records, batch in self._batches(result, timestamp):
            led.is_appending = True
            try:
                last_offset = self._coordinator_log.append(led.partition, batch)
            finally:
                led.is_appending = False
            offset = last_offset - len(records) + 1
            if offset != led.log_end_offset:
                raise _OutOfSync(f"records were written at offset {offset} instead of {led.log_end_offset}")
            for record in records:
                led.shard.replay(Offset(offset), *_NO_PRODUCER, record)
                offset += 1
            led.log_end_offset = Offset(offset)
        led.high_watermark = max(led.high_watermark, self._coordinator_log.high_watermark(led.partition))

    def _batches(self, result: Result, timestamp: Millis) -> Iterator[tuple[Sequence[CoordinatorRecord], bytes]]:
        serialize = self._serde.serialize
        encoded: list[UnstampedRecord] = []
        for record in result.records:
            key, value = serialize(record)
            encoded.append((timestamp, key, value, ()))
        if result.atomic:
            yield result.records, encode_batch(encoded, compression=self._compression)
            return
        start, size_bytes = 0, _BATCH_OVERHEAD_BYTES
        for end, (_, record_key, record_value, _) in enumerate(encoded):
            record_bytes = len(record_key or b"") + len(record_value or b"") + _RECORD_OVERHEAD_BYTES
            if end > start and size_bytes + record_bytes > self._coordinator_log.max_batch_bytes:
                yield result.records[start:end], encode_batch(encoded[start:end], compression=self._compression)
                start, size_bytes = end, _BATCH_OVERHEAD_BYTES
            size_bytes += record_bytes
        yield result.records[start:], encode_batch(encoded[start:], compression=self._compression)

    def _commit(self, led: LedPartition[S], result: Result) -> None:
        self._release(result)
        if result.on_commit is not None:
            self._execute(led, result.on_commit(self._wall_clock()))

    def _fail(self, led: LedPartition[S], waiting: Waiting, code: ErrorCode) -> None:
        """The decision did not come to stand. Others who were answered by it are; the request itself gets an error."""
        result = waiting.result
        for ticket, response in result.replies:
            if ticket != waiting.ticket:
                self._answer(ticket, response)
        if result.on_failure is not None:
            again = result.on_failure(code, self._wall_clock())
            # Bad news need not wait for the log.
            self._release(again)
            again.replies.clear()
            self._execute(led, again)
        if waiting.ticket is not None and waiting.refuse is not None:
            self._answer(waiting.ticket, waiting.refuse(code))

    def _set_alarms(self, led: LedPartition[S], result: Result) -> None:
        for key, delay_ms in result.timers:
            if delay_ms is None:
                led.alarms.cancel(key)
            else:
                led.alarms.arm(key, delay_ms)

    def _release(self, result: Result) -> None:
        for ticket, response in result.replies:
            self._answer(ticket, response)

    def _answer(self, ticket: Ticket, response: Message) -> None:
        asking = self._asking
        if asking is not None and asking.ticket == ticket:
            if asking.response is None:
                asking.response = response
            return
        promise = self._parked.pop(ticket, None)
        # Who asked may have hung up, or have been answered with an error already.
        if promise is not None and not promise.done():
            promise.set_result(response)

    # What happens by itself

    def _on_alarm(self, partition: PartitionIndex, key: TimerKey) -> None:
        led = self._led.get(partition)
        if led is None or led.state is not PartitionState.ACTIVE:
            return
        if key == _WRITE_TIMEOUT:
            self._give_up_waiting(led)
            return
        try:
            result = led.shard.handle_timer(key, self._wall_clock())
        except Exception:
            _log.exception("partition %d: timer %s failed", partition, key)
            return
        self._execute(led, result)

    def _on_high_watermark(self, led: LedPartition[S], high_watermark: Offset) -> None:
        led.high_watermark = max(led.high_watermark, high_watermark)
        if led.is_appending:
            return  # The append that caused it goes on from here.
        self._release_committed(led)

    def _release_committed(self, led: LedPartition[S]) -> None:
        while led.waiting and led.waiting[0].offset <= led.high_watermark:
            self._commit(led, led.waiting.popleft().result)

    def _wait(self, led: LedPartition[S], waiting: Waiting) -> None:
        waiting.deadline_ms = self._timers.now_ms() + self._write_timeout_ms
        if not led.waiting:
            led.alarms.arm(_WRITE_TIMEOUT, self._write_timeout_ms)
        led.waiting.append(waiting)

    def _give_up_waiting(self, led: LedPartition[S]) -> None:
        """The replicas did not follow in time: the requests fail, the records stay and may commit."""
        now_ms = self._timers.now_ms()
        while led.waiting and led.waiting[0].deadline_ms <= now_ms:
            self._fail(led, led.waiting.popleft(), ErrorCode.request_timed_out)
        if led.waiting:
            led.alarms.arm(_WRITE_TIMEOUT, led.waiting[0].deadline_ms - now_ms)

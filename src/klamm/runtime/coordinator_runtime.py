"""Runs a coordinator's shards: each request is decided, appended to the log, made visible and answered, in this order.

Each partition of the internal topic that this broker leads has a shard. `submit` lets the shard decide, and executes
the decision by the contract of `core.coordinator`. Everything happens inside the calls, in the order of the calls. On a
single node, where the high watermark rises with each append, `submit` returns the answer. If the answer has to wait for
replicas or other members, `submit` returns a promise.

After Apache Kafka's `CoordinatorRuntime`, without its threads, snapshots and event queue: no change is visible before
it is appended, so no change has to be reverted. Lingering records (`linger.py`) are appended before any other request
is decided.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, Generic, TypeVar, cast

from klamm.core.coordinator.cluster_topics import NO_TOPICS, ClusterTopics
from klamm.core.coordinator.shard_contract import (
    BackgroundTask,
    ClientContext,
    DeletedTopic,
    RequestToSend,
    Result,
    Shard,
    Ticket,
    TimerKey,
    TimerKind,
)
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.message import Message
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex
from klamm.runtime.alarms import AlarmQueue, Alarms
from klamm.runtime.led_partition import LedPartition, PartitionState, Waiting
from klamm.runtime.linger import ADAPTIVE, Linger
from klamm.runtime.load_queue import LoadQueue
from klamm.runtime.partition_loading import replay_log
from klamm.runtime.ports import CoordinatorLog, Executor, Promise, Promises, Sender, Timers, WallClock
from klamm.runtime.record_serde import RecordSerde
from klamm.runtime.record_writer import OutOfSync, RecordWriter
from klamm.runtime.reusable_answers import ReusableAnswers
from klamm.runtime.skipped_records import SkippedRecords

__all__ = ["CoordinatorRuntime"]

S = TypeVar("S", bound=Shard)
Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)

_logger = logging.getLogger(__name__)

_LINGERING_BYTES: Final = 64 * 1024
"""Limit for the lingering records: about four hundred offsets. Writing them blocks the event loop for about four
milliseconds. Commits that replace one another count once."""
_WRITE_TIMEOUT: Final = TimerKey(TimerKind("write timeout"))


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
        new_shard: Callable[[LeaderEpoch], S],
        *,
        serde: RecordSerde,
        log: CoordinatorLog,
        timers: Timers,
        wall_clock: WallClock,
        promises: Promises,
        executor: Executor | None = None,
        sender: Sender | None = None,
        publish: Callable[[PartitionIndex, Sequence[object]], None],
        write_timeout_ms: int,
        compression: Compression,
        linger_ms: int = ADAPTIVE,
        has_session: Callable[[], bool] | None = None,
    ) -> None:
        """Takes `has_session`, which returns whether this broker is certain to coordinate now; None if it always is."""
        self.topic: Final = serde.topic
        self._new_shard = new_shard
        self._serde = serde
        self._coordinator_log = log
        self._timers = timers
        self._wall_clock = wall_clock
        self._promises = promises
        self._executor = executor
        self._sender = sender
        self._publish = publish
        self._write_timeout_ms = write_timeout_ms
        self._writer = RecordWriter(log, serde, wall_clock, compression)
        self._linger_ms = linger_ms
        self._alarm_queue = AlarmQueue(timers)
        self._has_session = has_session
        self.reusable_answers: Final = ReusableAnswers(self._alarm_queue, wall_clock, has_session)
        self._topics = NO_TOPICS
        self._led: dict[PartitionIndex, LedPartition[S]] = {}
        self._loads: LoadQueue[S] = LoadQueue(timers)
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
        *,
        may_linger: bool = False,
        request_fingerprint: bytes = b"",
    ) -> R | Awaitable[R]:
        """Has the partition's shard decide the request, and returns the response or a promise of it.

        `refuse` builds the response for an error code; `submit` never raises. With `may_linger` the request is decided
        while records linger; otherwise the lingering records are written first. `request_fingerprint` identifies the
        whole request and its client: equal fingerprints mean the same request of the same client. If the result has a
        `reusable_answer`, `reusable_answers` keeps the response for equal requests.
        """
        led = self._led.get(partition)
        if led is not None and led.lingering and not may_linger:
            self._flush(led)
            led = self._led.get(partition)
        # Otherwise another broker may coordinate already: requests that only read would get an old state.
        if led is None or led.state is not PartitionState.ACTIVE or (self._has_session and not self._has_session()):
            is_loading = led is not None and led.state in (PartitionState.LOADING, PartitionState.STARTING)
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NOT_COORDINATOR
            return refuse(request, code)
        ticket = Ticket(next(self._tickets))
        try:
            result = operation(led.shard, request, context, ticket, self._wall_clock())
        except KafkaError as error:
            return refuse(request, error.code)
        except Exception:
            _logger.exception("partition %d: %s failed", partition, type(request).__name__)
            return refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        if (
            not (result.records or result.events or result.tasks or result.requests)
            and len(result.replies) == 1
            and result.linger_epoch is None
            and result.transaction is None
            and result.on_append is None
            and result.on_commit is None
            and led.is_committed
        ):
            # The short path, for heartbeats: there is nothing to write and nothing to wait for.
            answered, response = result.replies[0]
            if answered == ticket:
                self._set_alarms(led, result)
                if request_fingerprint:
                    self.reusable_answers.keep(request_fingerprint, led, result, response, context.api_version)
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
        """Returns the partitions that are led here, loaded or not."""
        return list(self._led)

    def shard(self, partition: PartitionIndex) -> S | None:
        """Returns the shard of a partition for reading; None if the partition is not led here or not loaded."""
        led = self._led.get(partition)
        return led.shard if led is not None and led.state is PartitionState.ACTIVE else None

    # Leadership

    def load(self, partition: PartitionIndex, leader_epoch: LeaderEpoch) -> None:
        """Starts to lead the partition: reads its log, then answers. Does nothing if this leader epoch is led already.

        Under a newer leader epoch the partition is loaded again, because another broker may have led it and written to
        its log in between; waiting requests get NOT_COORDINATOR. A partition whose load failed is loaded again, too.
        """
        led = self._led.get(partition)
        if led is not None:
            if led.state is not PartitionState.FAILED and leader_epoch <= led.leader_epoch:
                return
            self.unload(partition)
        led = LedPartition(
            partition,
            leader_epoch,
            self._new_shard(leader_epoch),
            Alarms(self._alarm_queue, partial(self._on_alarm, partition)),
            Linger(self._linger_ms, self._timers, partial(self._flush_partition, partition)),
        )
        self._led[partition] = led
        self._loads.add(led, self._load(led))

    def unload(self, partition: PartitionIndex) -> None:
        """Stops leading the partition; its waiting requests get NOT_COORDINATOR."""
        led = self._led.pop(partition, None)
        if led is not None:
            self._close(led)

    def stop(self) -> None:
        """Unloads all partitions, and stops all loads and alarms."""
        for partition in list(self._led):
            self.unload(partition)
        self._loads.stop()
        self._alarm_queue.stop()

    def shards(self) -> Sequence[S]:
        """Returns the loaded shards, for reading."""
        return [led.shard for led in self._led.values() if led.state is PartitionState.ACTIVE]

    @property
    def skipped_records(self) -> int:
        """The number of unreadable records that were found when the led partitions were loaded."""
        return sum(led.skipped.unreadable for led in self._led.values() if led.skipped is not None)

    def decide(self, partition: PartitionIndex, decide: Callable[[S, Millis], Result]) -> None:
        """Executes a decision on one shard without a request.

        Raises what `decide` raises, and KafkaError NOT_COORDINATOR if the partition is not loaded here.
        """
        led = self._led.get(partition)
        if led is not None and led.state is PartitionState.ACTIVE:
            self._flush(led)
            led = self._led.get(partition)
        if led is None or led.state is not PartitionState.ACTIVE:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"partition {partition} has no coordinator here")
        self._execute(led, decide(led.shard, self._wall_clock()))

    def tell(self, decide: Callable[[S, Millis], Result]) -> None:
        """Executes a decision on every loaded shard without a request."""
        for led in list(self._led.values()):
            if led.state is PartitionState.ACTIVE:
                self._flush(led)
                self._execute(led, decide(led.shard, self._wall_clock()))

    def on_metadata_update(self, topics: ClusterTopics, deleted_topics: Sequence[DeletedTopic]) -> None:
        """Tells all shards about a change of the cluster; partitions that are loading are told once they are loaded."""
        self._topics = topics
        for led in list(self._led.values()):
            self._flush(led)
        # A flush may have reloaded a partition and replaced its LedPartition, so the second pass reads them again.
        for led in list(self._led.values()):
            if led.state is PartitionState.ACTIVE:
                self._execute(led, led.shard.on_metadata_update(topics, deleted_topics, self._wall_clock()))
            elif led.state in (PartitionState.LOADING, PartitionState.STARTING):
                led.deleted_topics.extend(deleted_topics)

    def _load(self, led: LedPartition[S]) -> Iterator[Offset]:
        """Reads the partition in small steps, then has the shard derive its volatile state."""
        log, partition = self._coordinator_log, led.partition
        led.skipped = skipped = SkippedRecords(self._serde.topic, partition, self._serde.owner_word)
        yield from replay_log(log, partition, led.shard, self._serde.deserialize, skipped)
        skipped.end()
        led.log_end_offset = log.log_end_offset(partition)
        led.high_watermark = log.high_watermark(partition)
        led.high_watermark_listener = log.on_high_watermark(partition, partial(self._on_high_watermark, led))
        led.state = PartitionState.STARTING
        topics = self._topics
        for result in led.shard.on_loaded(topics, self._wall_clock()):
            self._execute(led, result)
            yield led.log_end_offset
        led.state = PartitionState.ACTIVE
        if led.deleted_topics or topics is not self._topics:
            deleted_topics, led.deleted_topics = led.deleted_topics, []
            self._execute(led, led.shard.on_metadata_update(self._topics, deleted_topics, self._wall_clock()))

    def _close(self, led: LedPartition[S]) -> None:
        was_open = led.is_open
        led.state = PartitionState.CLOSED
        led.alarms.cancel_all()
        led.linger.stop()
        if led.high_watermark_listener is not None:
            led.high_watermark_listener.cancel()
        while led.waiting:
            self._fail(led, led.waiting.popleft(), ErrorCode.NOT_COORDINATOR)
        while led.lingering:
            self._fail(led, led.lingering.pop(0), ErrorCode.NOT_COORDINATOR)
        if was_open:
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
        """Executes a decision: arms its timers, writes its records, starts its tasks, and releases or parks replies."""
        if not led.is_open:
            self._release(result)
            return
        self._set_alarms(led, result)
        waiting = Waiting(led.log_end_offset, result, ticket, refuse, 0.0)
        if result.linger_epoch is not None and self._let_linger(led, waiting):
            return
        if result.records or result.transaction is not None:
            self._flush(led)  # The lingering records were decided before.
            if self._write(led, result, [waiting]) is not None:
                return
        # The callback refers to the result; dropping it first avoids a reference cycle for the garbage collector.
        on_append, result.on_append = result.on_append, None
        if on_append is not None:
            on_append()
        for task in result.tasks:
            assert self._executor
            self._executor.submit(task, partial(self._on_outcome, led, task))
        for request in result.requests:
            assert self._sender
            self._sender.send(request, partial(self._on_outcome, led, request))
        self._release_or_wait(led, [waiting])

    def _let_linger(self, led: LedPartition[S], waiting: Waiting) -> bool:
        """Lets the records linger; returns False if they have to be written at once."""
        if not led.linger.admits():
            return False
        limit_bytes = min(self._coordinator_log.max_batch_bytes, _LINGERING_BYTES)
        if not led.shard.put_aside(waiting.result, limit_bytes):
            code = self._flush(led)
            if code is not None:
                # Fails with the same code: the decision may rest on a record that was lingering.
                self._fail(led, waiting, code)
                return True
            if not led.shard.put_aside(waiting.result, limit_bytes):
                return False
        led.lingering.append(waiting)
        return True

    def _flush(self, led: LedPartition[S]) -> ErrorCode | None:
        """Writes the lingering records, if any. A failure is returned, and is the answer to all waiting requests."""
        if not led.lingering or not led.is_open:
            return None
        lingering, led.lingering = led.lingering, []
        led.linger.note_flush()
        result = Result()
        result.records = led.shard.take_lingering()
        code = self._write(led, result, lingering)
        if code is None:
            self._release_or_wait(led, lingering)
        return code

    def _flush_partition(self, partition: PartitionIndex) -> None:
        led = self._led.get(partition)
        if led is not None:
            self._flush(led)

    def _write(self, led: LedPartition[S], result: Result, waiting: Sequence[Waiting]) -> ErrorCode | None:
        """Appends and replays the records. A failure is returned, and is the answer to all waiting requests."""
        is_broken = False
        try:
            if not led.is_open:
                raise KafkaError(ErrorCode.NOT_COORDINATOR)
            self._writer.write(led, result)
        except KafkaError as error:
            led.note_refusal(error)
            code = error.code
        except Exception as error:
            expected = isinstance(error, OutOfSync)
            _logger.error("partition %d: %s; reading the log again", led.partition, error, exc_info=not expected)
            code, is_broken = ErrorCode.NOT_COORDINATOR, True
        else:
            for each in waiting:
                each.offset = led.log_end_offset
            return None
        for each in waiting:
            self._fail(led, each, code)
        if is_broken:
            self._reload(led)
        return code

    def _release_or_wait(self, led: LedPartition[S], waiting: Sequence[Waiting]) -> None:
        if led.is_committed:
            for each in waiting:
                self._commit(led, each.result)
            return
        for each in waiting:
            self._wait(led, each)
        self._release_committed(led)

    def _commit(self, led: LedPartition[S], result: Result) -> None:
        self._release(result)
        if result.events:
            self._publish(led.partition, result.events)
        on_commit = result.on_commit
        result.on_commit = result.on_failure = None
        if on_commit is not None:
            self._flush(led)
            self._execute(led, on_commit(self._wall_clock()))

    def _fail(self, led: LedPartition[S], waiting: Waiting, code: ErrorCode, *, is_written: bool = False) -> None:
        """Fails a decision: its request gets an error, its replies to other requests are sent."""
        result = waiting.result
        for ticket, response in result.replies:
            if ticket != waiting.ticket:
                self._answer(ticket, response)
        is_real = not result.records or (is_written and result.on_failure is None)
        if result.events and is_real and led.state is not PartitionState.CLOSED:
            # The events are real: there are no records, or the log has the records and may still commit them. With
            # `on_failure` the new decision reports its own events. After an unload another coordinator reports.
            self._publish(led.partition, result.events)
        on_failure = result.on_failure
        result.on_append = result.on_commit = result.on_failure = None
        if on_failure is not None:
            self._flush(led)
            again = on_failure(code, self._wall_clock())
            # Errors need not wait for the log.
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
        # The client may have disconnected, or may have got an error already.
        if promise is not None and not promise.done():
            promise.set_result(response)

    # Timers, tasks and the high watermark

    def _on_alarm(self, partition: PartitionIndex, key: TimerKey) -> None:
        led = self._led.get(partition)
        if led is None or not led.is_open:
            return
        if key == _WRITE_TIMEOUT:
            self._give_up_waiting(led)
            return
        if self._flush(led) is not None and self._led.get(partition) is not led:
            return
        try:
            result = led.shard.handle_timer(key, self._wall_clock())
        except Exception:
            _logger.exception("partition %d: timer %s failed", partition, key)
            return
        self._execute(led, result)

    def _on_outcome(self, led: LedPartition[S], effect: BackgroundTask | RequestToSend, outcome: object) -> None:
        self._flush(led)
        if not led.is_open:
            return
        try:
            result = led.shard.handle_outcome(effect, outcome, self._wall_clock())
        except Exception:
            name = type(effect).__name__
            _logger.exception("partition %d: the outcome of %s (%s) failed", led.partition, name, effect.owner_id)
            return
        self._execute(led, result)

    def _on_high_watermark(self, led: LedPartition[S], high_watermark: Offset) -> None:
        led.high_watermark = max(led.high_watermark, high_watermark)
        if led.is_appending:
            return  # The append in progress releases the committed decisions itself.
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
        """Fails the requests whose records the replicas did not copy in time; the records stay and may commit later."""
        now_ms = self._timers.now_ms()
        while led.waiting and led.waiting[0].deadline_ms <= now_ms:
            self._fail(led, led.waiting.popleft(), ErrorCode.REQUEST_TIMED_OUT, is_written=True)
        if led.waiting:
            led.alarms.arm(_WRITE_TIMEOUT, led.waiting[0].deadline_ms - now_ms)

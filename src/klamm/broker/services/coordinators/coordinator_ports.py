"""The coordinators' ports on this broker: partition logs, the loop's timers, a thread, random ids."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from klamm.core.log.transaction_verification import NO_GUARD
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, Offset, PartitionIndex

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.metadata.service import MetadataService
    from klamm.runtime.ports import Runnable

__all__ = ["CodeImport", "LoopTimers", "PartitionLogs", "RandomIds", "ThreadExecutor", "certainty_to_coordinate"]

_READ_BYTES: Final = 256 * 1024


def certainty_to_coordinate(metadata: MetadataService) -> Callable[[], bool] | None:
    """Returns a function that returns whether no other broker can coordinate this broker's groups and transactions now;
    None if no other broker uses the store.

    A broker that has announced its stop loses its partitions at any moment, and is not in sync any more: the next
    coordinator may acknowledge before this one hears of it.
    """
    if not metadata.is_shared:
        return None
    return lambda: not metadata.replicas.is_stopping and metadata.has_session()


class PartitionLogs:
    """The partitions of one internal topic, for the runtime that stores its state in them."""

    _needs_in_sync_replicas: ClassVar = True
    """Whether an append needs as many in-sync replicas as a Produce with acks=all."""

    def __init__(self, topic: str, partitions: PartitionRegistry, clock: Callable[[], Millis]) -> None:
        self._topic = topic
        self._partitions = partitions
        self._clock = clock

    @property
    def max_batch_bytes(self) -> int:
        """The topic's `max.message.bytes`, read from any partition of the topic that this broker leads.

        Raises KafkaError NOT_LEADER_OR_FOLLOWER if it leads none.
        """
        topic = self._partitions.by_name.get(self._topic)
        for partition in topic.partitions if topic is not None else ():
            if partition is not None:
                return partition.log.config.max_message_bytes
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker leads no partition of {self._topic}")

    def append(
        self,
        partition: PartitionIndex,
        batch: bytes,
        *,
        verification_guard: int = NO_GUARD,
        transaction_version: int = 0,
    ) -> Offset:
        """Appends as leader and returns the offset of the last record.

        As Kafka's coordinators, it writes nothing if `min.insync.replicas` is not reached: the records would stay
        uncommitted, and all later answers of the partition would wait for them. Raises KafkaError.
        """
        led = self._get(partition)
        if self._needs_in_sync_replicas:
            led.check_in_sync_replicas()
        info = led.append(
            memoryview(batch),
            self._clock(),
            from_client=False,
            verification_guard=verification_guard,
            transaction_version=transaction_version,
        )
        return info.last_offset

    def read(self, partition: PartitionIndex, offset: Offset) -> bytes | memoryview:
        """Returns whole batches from `offset` on, at most up to the log end offset."""
        log = self._get(partition).log
        return log.read(offset, _READ_BYTES, upper_bound=log.log_end_offset, minimum_one_batch=True)

    def log_start_offset(self, partition: PartitionIndex) -> Offset:
        """Returns the first offset that can be read."""
        return self._get(partition).log.log_start_offset

    def log_end_offset(self, partition: PartitionIndex) -> Offset:
        """Returns the offset of the next record."""
        return self._get(partition).log.log_end_offset

    def high_watermark(self, partition: PartitionIndex) -> Offset:
        """Returns the first offset that is not committed."""
        return self._get(partition).log.high_watermark

    def on_high_watermark(
        self, partition: PartitionIndex, callback: Callable[[Offset], None]
    ) -> HighWatermarkSubscription:
        """Calls `callback` with every new high watermark until the subscription is cancelled."""
        return HighWatermarkSubscription(self._get(partition), callback)

    def _get(self, partition: PartitionIndex) -> Partition:
        return self._partitions.get(self._topic, partition)


class HighWatermarkSubscription:
    """A callback for a partition's high watermark, until it is cancelled."""

    def __init__(self, partition: Partition, callback: Callable[[Offset], None]) -> None:
        self._partition: Partition | None = partition
        self._callback = callback
        partition.on_high_watermark(callback)

    def cancel(self) -> None:
        """Ends the subscription; a second call does nothing."""
        if self._partition is not None:
            self._partition.off_high_watermark(self._callback)
            self._partition = None


class LoopTimers:
    """The event loop's monotonic clock and alarms.

    A due alarm waits for one more iteration of the loop, so that data that has already arrived on the sockets is
    handled first.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> float:
        """Returns the loop's clock in milliseconds."""
        return self._loop.time() * 1000

    def call_at(self, deadline_ms: float, callback: Callable[[], None]) -> Alarm:
        """Calls `callback` after the deadline."""
        return Alarm(self._loop, deadline_ms / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> asyncio.Handle:
        """Calls `callback` in the next iteration of the loop, before the loop polls its sockets."""
        return self._loop.call_soon(callback)


class Alarm:
    """One alarm, which can be cancelled until its callback has run."""

    __slots__ = ("_callback", "_handle", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, deadline_s: float, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._handle: asyncio.Handle = loop.call_at(deadline_s, self._let_sockets_go_first)

    def _let_sockets_go_first(self) -> None:
        # The loop polls its sockets between two iterations: data that is readable now is handled before the second of
        # these callbacks.
        self._handle = self._loop.call_later(0.001, self._callback)

    def cancel(self) -> None:
        """Cancels the alarm; harmless after its callback has run."""
        self._handle.cancel()


class CodeImport(NamedTuple):
    """The work for an executor that imports code before it is needed."""

    load: Callable[[], object]

    def run(self) -> object:
        """Imports the code."""
        return self.load()


class ThreadExecutor:
    """A single worker thread, started with the first task."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="coordinator")

    def submit(self, task: Runnable, done: Callable[[object], None]) -> None:
        """Runs the task on the thread, and calls `done` on the loop with its return value or exception."""
        future = self._pool.submit(task.run)
        future.add_done_callback(lambda future: self._report(future, done))

    def stop(self) -> None:
        """Cancels the waiting tasks without a report, and waits for the running task. May run on any thread."""
        self._pool.shutdown(cancel_futures=True)

    def _report(self, future: Future[object], done: Callable[[object], None]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        outcome = future.result() if error is None else error
        # The loop may be closed when the last task ends.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(done, outcome)


class RandomIds:
    """Random ids from the system's random source."""

    def member_id(self, prefix: str) -> str:
        """Returns the prefix, a dash and a random UUID, as Kafka builds member ids."""
        return f"{prefix}-{uuid.uuid4()}"

    def uuid(self) -> str:
        """Returns a random UUID in base64, as Kafka's `Uuid.randomUuid`.

        It never begins with a dash, so that no command line takes it for an option.
        """
        while True:
            text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode("ascii")
            if not text.startswith("-"):
                return text

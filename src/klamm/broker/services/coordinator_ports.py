"""The coordinators' ports, on this broker: partitions' logs, the loop's timers, random ids."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from klamm.core.log.transaction_verification import NO_GUARD
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, Offset, PartitionIndex

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.broker.partitions.partition_registry import PartitionRegistry

__all__ = ["LoopTimers", "PartitionLogs", "RandomIds", "ThreadExecutor"]

READ_BYTES: Final = 256 * 1024


class PartitionLogs:
    """The partitions of one internal topic, for the runtime that keeps its state in them."""

    def __init__(self, topic: str, partitions: PartitionRegistry, clock: Callable[[], Millis]) -> None:
        self._topic = topic
        self._partitions = partitions
        self._clock = clock

    @property
    def max_batch_bytes(self) -> int:
        """The topic's `max.message.bytes`, as any of its partitions that are led here knows it.

        Raises KafkaError where none is.
        """
        topic = self._partitions.by_name.get(self._topic)
        for partition in topic.partitions if topic is not None else ():
            if partition is not None:
                return partition.log.config.max_message_bytes
        raise KafkaError(ErrorCode.not_leader_or_follower, f"this broker leads no partition of {self._topic}")

    def append(
        self,
        partition: PartitionIndex,
        batch: bytes,
        *,
        verification_guard: int = NO_GUARD,
        transaction_version: int = 0,
    ) -> Offset:
        """Appends as leader; the offset of the last record."""
        info = self._get(partition).append(
            memoryview(batch),
            self._clock(),
            from_client=False,
            verification_guard=verification_guard,
            transaction_version=transaction_version,
        )
        return info.last_offset

    def read(self, partition: PartitionIndex, offset: Offset) -> bytes | memoryview:
        """Whole batches from `offset` on, up to the log end offset."""
        log = self._get(partition).log
        return log.read(offset, READ_BYTES, upper_bound=log.log_end_offset, minimum_one_batch=True)

    def log_start_offset(self, partition: PartitionIndex) -> Offset:
        """The first offset that can be read."""
        return self._get(partition).log.log_start_offset

    def log_end_offset(self, partition: PartitionIndex) -> Offset:
        """The offset of the next record."""
        return self._get(partition).log.log_end_offset

    def high_watermark(self, partition: PartitionIndex) -> Offset:
        """The first offset that is not committed."""
        return self._get(partition).log.high_watermark

    def on_high_watermark(
        self, partition: PartitionIndex, callback: Callable[[Offset], None]
    ) -> HighWatermarkSubscription:
        """Calls back at every rise until cancelled."""
        return HighWatermarkSubscription(self._get(partition), callback)

    def _get(self, partition: PartitionIndex) -> Partition:
        return self._partitions.get(self._topic, partition)


class HighWatermarkSubscription:
    """A callback at a partition's high watermark, until it is cancelled."""

    def __init__(self, partition: Partition, callback: Callable[[Offset], None]) -> None:
        self._partition: Partition | None = partition
        self._callback = callback
        partition.on_high_watermark(callback)

    def cancel(self) -> None:
        """Ends it; harmless the second time."""
        if self._partition is not None:
            self._partition.off_high_watermark(self._callback)
            self._partition = None


class LoopTimers:
    """The event loop's monotonic clock and alarms.

    A due alarm lets one more round of the loop pass, so that what had arrived on the sockets by then is handled
    before it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now_ms(self) -> float:
        """Milliseconds on the loop's clock."""
        return self._loop.time() * 1000

    def call_at(self, deadline_ms: float, callback: Callable[[], None]) -> Alarm:
        """Calls back after the deadline."""
        return Alarm(self._loop, deadline_ms / 1000, callback)

    def call_soon(self, callback: Callable[[], None]) -> asyncio.Handle:
        """Calls back in the loop's next round, before its sockets are looked at."""
        return self._loop.call_soon(callback)


class Alarm:
    """One alarm that can be called off until it has rung."""

    __slots__ = ("_callback", "_handle", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, deadline_s: float, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._handle: asyncio.Handle = loop.call_at(deadline_s, self._let_sockets_go_first)

    def _let_sockets_go_first(self) -> None:
        # The loop polls its sockets between two rounds: what is readable now is handled before the second of these
        # callbacks.
        self._handle = self._loop.call_later(0.001, self._callback)

    def cancel(self) -> None:
        """Calls it off; harmless when it has rung."""
        self._handle.cancel()


class ThreadExecutor:
    """One thread beside the event loop, started with the first task."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="coordinator")

    def submit(self, run: Callable[[], object], done: Callable[[object], None]) -> None:
        """Runs it on the thread, and reports on the loop what it returned or raised."""
        future = self._pool.submit(run)
        future.add_done_callback(lambda future: self._report(future, done))

    def stop(self) -> None:
        """Begins nothing new and reports nothing more; what runs runs out."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _report(self, future: Future[object], done: Callable[[object], None]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        outcome = future.result() if error is None else error
        # The loop may be gone while the last task runs out.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(done, outcome)


class RandomIds:
    """Ids from the system's randomness."""

    def member_id(self, prefix: str) -> str:
        """The prefix, a dash, a random UUID, as Kafka builds member ids."""
        return f"{prefix}-{uuid.uuid4()}"

    def uuid(self) -> str:
        """Another one in base64, as Kafka's `Uuid.randomUuid`: it might be taken for an option with a dash first."""
        while True:
            text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode("ascii")
            if not text.startswith("-"):
                return text

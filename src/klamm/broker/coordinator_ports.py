"""The coordinators' ports, on this broker: partitions' logs, the loop's timers, random ids."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from klamm.protocol.types import Millis, Offset, PartitionIndex

if TYPE_CHECKING:
    from klamm.broker.partitions import Partition, Partitions

__all__ = ["LoopTimers", "PartitionLogs", "RandomIds"]

READ_BYTES: Final = 1024 * 1024


class PartitionLogs:
    """The partitions of one internal topic, for the runtime that keeps its state in them."""

    def __init__(self, topic: str, partitions: Partitions, clock: Callable[[], Millis]) -> None:
        self._topic = topic
        self._partitions = partitions
        self._clock = clock

    @property
    def max_batch_bytes(self) -> int:
        """The topic's `max.message.bytes`."""
        return self._partitions.get(self._topic, 0).log.config.max_message_bytes

    def append(self, partition: PartitionIndex, batch: bytes) -> Offset:
        """Appends as leader; the offset of the last record."""
        return self._get(partition).append(memoryview(batch), self._clock(), from_client=False).last_offset

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


class RandomIds:
    """Ids from the system's randomness."""

    def member_id(self, prefix: str) -> str:
        """The prefix, a dash, a random UUID, as Kafka builds member ids."""
        return f"{prefix}-{uuid.uuid4()}"

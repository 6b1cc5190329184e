"""What the runtime needs from outside, so that it turns the same way on a broker's event loop and in the simulator.

All calls come from one thread. None of them may call back into the runtime before it returns, except
`CoordinatorLog.append`, which may report a new high watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol, TypeVar

from klamm.protocol.types import Millis, Offset, PartitionIndex

__all__ = ["Cancellable", "CoordinatorLog", "Executor", "Ids", "Promise", "Promises", "Spawn", "Timers", "WallClock"]

T = TypeVar("T")

Spawn = Callable[[Coroutine[Any, Any, None]], object]
"""Begins a coroutine at the end of this turn of the event loop, and sees to it that it runs to its end or is cancelled
with the broker. Nobody waits for it."""

WallClock = Callable[[], Millis]
"""Milliseconds since the epoch: what records are stamped with. It may jump; no deadline depends on it."""


class Cancellable(Protocol):
    """Something that was asked for and can be called off."""

    def cancel(self) -> None:
        """Call it off; harmless when it has happened already."""


class Timers(Protocol):
    """A monotonic clock and one-shot alarms on it."""

    def now_ms(self) -> float:
        """Milliseconds on a clock that never goes back; its zero means nothing."""

    def call_at(self, deadline_ms: float, callback: Callable[[], None]) -> Cancellable:
        """Call back once the clock has reached the deadline, never before this call returns.

        Sockets that are readable at that moment should be read first, so that a heartbeat that has arrived counts.
        """

    def call_soon(self, callback: Callable[[], None]) -> Cancellable:
        """Call back at the end of this turn of the event loop, never before this call returns: once everything that
        was readable when the turn began has been handled, and before the loop waits for more.
        """


class Executor(Protocol):
    """Where work runs that would hold up everybody else."""

    def submit(self, run: Callable[[], object], done: Callable[[object], None]) -> None:
        """Run it somewhere, then call back with what it returned or raised: later, on the thread of the caller."""


class Ids(Protocol):
    """Where randomness comes from."""

    def member_id(self, prefix: str) -> str:
        """A member id that was never handed out before: the client id or group instance id, a dash, and a random
        UUID.
        """

    def uuid(self) -> str:
        """A random UUID in base64, as Kafka writes one and as members of consumer groups are named: 22 characters,
        the first no dash.
        """


class Promise(Protocol[T]):
    """An answer that is still to come; `asyncio.Future` is one."""

    def done(self) -> bool:
        """Whether it has its result, or nobody waits any more."""

    def set_result(self, result: T, /) -> None:
        """Wake who waits, later: not inside this call."""

    def __await__(self) -> Generator[Any, None, T]: ...


class Promises(Protocol):
    """Where promises come from: an event loop is one such place."""

    def create_future(self) -> Promise[Any]:
        """A promise without result."""


class CoordinatorLog(Protocol):
    """The partitions of one internal topic, as their leader sees them.

    Failures are `KafkaError` with the log's own code.
    """

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that `append` takes: the topic's `max.message.bytes`."""

    def append(
        self,
        partition: PartitionIndex,
        batch: bytes,
        *,
        verification_guard: int = 0,
        transaction_version: int = 0,
    ) -> Offset:
        """Append one encoded batch as the leader and return the offset of its last record.

        Base offset and leader epoch are stamped on the way. The guard is that of the first batch of a transaction,
        the version that of a marker. Raises KafkaError and writes nothing if it cannot be done.
        """

    def read(self, partition: PartitionIndex, offset: Offset) -> bytes | memoryview:
        """Whole batches from the one that holds `offset` on, a few hundred kilobytes; empty at the end of the log."""

    def log_start_offset(self, partition: PartitionIndex) -> Offset:
        """The first offset that can be read."""

    def log_end_offset(self, partition: PartitionIndex) -> Offset:
        """The offset that the next record gets."""

    def high_watermark(self, partition: PartitionIndex) -> Offset:
        """The first offset that is not committed."""

    def on_high_watermark(self, partition: PartitionIndex, callback: Callable[[Offset], None]) -> Cancellable:
        """Call back with the new high watermark whenever it rises, until cancelled."""

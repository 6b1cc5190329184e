"""The runtime's interfaces to its environment, which is a broker's event loop or the simulator.

All calls come from one thread. None of them may call back into the runtime before it returns, except
`CoordinatorLog.append`, which may report a new high watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol, TypeVar

from klamm.core.coordinator.shard_contract import RequestToSend
from klamm.protocol.types import Millis, Offset, PartitionIndex

__all__ = [
    "Cancellable",
    "CoordinatorLog",
    "Executor",
    "Ids",
    "Promise",
    "Promises",
    "Runnable",
    "Sender",
    "Spawn",
    "Timers",
    "WallClock",
]

T = TypeVar("T")

Spawn = Callable[[Coroutine[Any, Any, None]], object]
"""Starts a coroutine at the end of this iteration of the event loop. The coroutine runs to its end or is cancelled with
the broker; the caller does not wait for it."""

WallClock = Callable[[], Millis]
"""Returns milliseconds since the epoch, for the timestamps of records. It may jump; no deadline depends on it."""


class Cancellable(Protocol):
    """A pending operation that can be cancelled."""

    def cancel(self) -> None:
        """Cancels the operation; does nothing if it has happened already."""


class Timers(Protocol):
    """A monotonic clock and one-shot alarms on it."""

    def now_ms(self) -> float:
        """Returns the milliseconds of a monotonic clock with an arbitrary zero."""

    def call_at(self, deadline_ms: float, callback: Callable[[], None]) -> Cancellable:
        """Calls back once the clock has reached the deadline, never before this call returns.

        Sockets that are readable at that moment should be read first, so that a heartbeat that has arrived counts.
        """

    def call_soon(self, callback: Callable[[], None]) -> Cancellable:
        """Calls back at the end of this iteration of the event loop, never before this call returns.

        By then all data that was readable when the iteration began is handled; the loop has not waited for more.
        """


class Executor(Protocol):
    """Runs work outside the event loop that would block it for too long."""

    def submit(self, task: Runnable, done: Callable[[object], None]) -> None:
        """Runs the task elsewhere, then calls `done` with its result or exception: later, on the caller's thread."""


class Runnable(Protocol):
    """Work with all its inputs, for example a shard's background task."""

    def run(self) -> object:
        """Does the work and returns the result."""


class Sender(Protocol):
    """Sends the requests of shards to other brokers, or to this one."""

    def send(self, request: RequestToSend, done: Callable[[object], None]) -> None:
        """Sends the request, then calls `done` with the answers: later, on the thread of the caller."""


class Ids(Protocol):
    """A source of random ids."""

    def member_id(self, prefix: str) -> str:
        """Returns a new member id: the prefix (a client id or group instance id), a dash, and a random UUID."""

    def uuid(self) -> str:
        """Returns a random UUID in Kafka's base64 form, as for member ids of consumer groups.

        It has 22 characters, and the first is not a dash.
        """


class Promise(Protocol[T]):
    """A pending answer; `asyncio.Future` is one."""

    def done(self) -> bool:
        """Returns whether the promise has its result or is cancelled."""

    def set_result(self, result: T, /) -> None:
        """Sets the result; the waiting coroutine continues later, not inside this call."""

    def __await__(self) -> Generator[Any, None, T]: ...


class Promises(Protocol):
    """A factory of promises, such as an event loop."""

    def create_future(self) -> Promise[Any]:
        """Returns a promise without result."""


class CoordinatorLog(Protocol):
    """The leader's view of the partitions of one internal topic.

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
        """Appends one encoded batch as the leader and returns the offset of its last record.

        The append sets base offset and leader epoch. `verification_guard` is for the first batch of a transaction,
        `transaction_version` for a marker. Raises KafkaError after a failure, and writes nothing then.
        """

    def read(self, partition: PartitionIndex, offset: Offset) -> bytes | memoryview:
        """Returns whole batches, a few hundred kilobytes, from the one that contains `offset`; empty at the log end."""

    def log_start_offset(self, partition: PartitionIndex) -> Offset:
        """Returns the first offset that can be read."""

    def log_end_offset(self, partition: PartitionIndex) -> Offset:
        """Returns the offset of the next record to be appended."""

    def high_watermark(self, partition: PartitionIndex) -> Offset:
        """Returns the first offset that is not committed."""

    def on_high_watermark(self, partition: PartitionIndex, callback: Callable[[Offset], None]) -> Cancellable:
        """Calls back with the new high watermark whenever it rises, until cancelled."""

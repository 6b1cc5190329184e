"""A run of a worker's handlers for tests: without a broker, in simulated time, with rebalances and crashes.

    with app.test() as run:
        run.produce("orders", b"...", key=b"a")
        run.crash()
        run.finish()
        assert run.committed("orders") == 1

The decisions are those of a real run (`klamm.core.delivery`), and coroutines run in the same way. Plain functions run
on the loop, also those with `pool=`; they take no simulated time.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from zlib import crc32

from klamm.core.delivery.commit_text import decode_note
from klamm.core.delivery.work import Received
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.worker.async_handlers import AsyncHandlers
from klamm.worker.dead_letters import dead_letter_headers
from klamm.worker.errors import WorkerError
from klamm.worker.handler_plan import HandlerPlan
from klamm.worker.handler_runs import HandlerRuns
from klamm.worker.record import Record, headers_size_bytes
from klamm.worker.simulated_loop import SimulatedLoop

if TYPE_CHECKING:
    from klamm.worker.worker import Worker

__all__ = ["SimulatedRun"]

_POLL_SECONDS: Final = 0.1
_MOST_AT_ONCE: Final = 500


class SimulatedRun:
    """One simulated member of the group, and the topics that it reads."""

    def __init__(self, worker: Worker, *, partitions: int = 1) -> None:
        if not worker.handlers:
            raise WorkerError("the worker has no handler: decorate a function with @app.handler(TOPIC)")
        self._worker = worker
        self._loop = SimulatedLoop()
        self._partitions = partitions
        self._logs: dict[TopicPartition, list[Record]] = {
            TopicPartition(topic, PartitionIndex(index)): []
            for plan in worker.handlers
            for topic in plan.topics
            for index in range(partitions)
        }
        self._commits: dict[TopicPartition, tuple[Offset, str]] = {}
        self._positions: dict[TopicPartition, Offset] = {}
        self._paused: set[TopicPartition] = set()
        self._failure: BaseException | None = None
        self._news = asyncio.Event()
        """Set when something was committed or has failed: `finish` looks again."""
        self.dead_letters: list[Record] = []
        """The records that failed for the last time, with the headers of dead letters; `topic` is where they were
        written.
        """
        self._start_member()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What tests do

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> None:
        """Writes a record. Without `partition`, the key chooses it."""
        index = partition if partition is not None else crc32(key or b"") % self._partitions
        log = self._logs.get(TopicPartition(topic, PartitionIndex(index)))
        if log is None:
            raise WorkerError(f"no handler reads partition {index} of {topic}")
        log.append(Record(topic, index, len(log), key, value, list(headers), int(self.now * 1000)))

    @property
    def now(self) -> float:
        """The simulated time in seconds since the beginning."""
        return self._loop.time()

    def advance(self, seconds: float) -> None:
        """Lets the handlers run for this time. Raises RecordFailed."""
        self._loop.run_until_complete(asyncio.sleep(seconds))
        self._check()

    def finish(self, within: float = 86_400.0) -> None:
        """Runs until all records are handled and committed.

        Raises RecordFailed, and WorkerError if this takes longer than `within` seconds of simulated time.
        """

        async def wait() -> None:
            async with asyncio.timeout(within):
                while self._failure is None and not self._is_finished():
                    self._news.clear()
                    await self._news.wait()

        try:
            self._loop.run_until_complete(wait())
        except TimeoutError:
            raise WorkerError(f"after {within:g} seconds not all records are handled") from None
        self._check()

    def rebalance(self) -> None:
        """Takes all partitions away and gives them back: what runs may end, then the member commits."""
        for runs in self._runs:
            runs.delivery.revoke(list(self._logs))
        ends = self.now + self._worker.drain
        while self.now < ends and not all(runs.delivery.is_drained(list(self._logs)) for runs in self._runs):
            self.advance(_POLL_SECONDS)
        self._commit()
        self.lose()

    def lose(self) -> None:
        """Takes all partitions away as if the session had ended, and gives them back: nothing is committed."""
        for runs, slots in zip(self._runs, self._slots, strict=True):
            runs.delivery.drop(list(self._logs))
            self._loop.call_soon(slots.cancel_gone)
        self._assign()
        self.advance(0)

    def crash(self) -> None:
        """Ends the member with all that runs, and starts another one."""
        self._stop_member()
        self._start_member()

    def committed(self, topic: str, partition: int = 0) -> int | None:
        """Returns the committed offset; None before the first commit."""
        commit = self._commits.get(TopicPartition(topic, PartitionIndex(partition)))
        return None if commit is None else commit[0]

    def close(self) -> None:
        """Ends the run."""
        if not self._loop.is_closed():
            self._stop_member()
            self._loop.close()

    # The member

    def _start_member(self) -> None:
        self._runs = [
            HandlerRuns(
                _on_loop(plan),
                clock_ms=lambda: self.now * 1000,
                to_record=replace,
                bury=self._bury,
                stop=self._stop,
            )
            for plan in self._worker.handlers
        ]
        self._slots = [AsyncHandlers(runs, self._loop) for runs in self._runs]
        for slots in self._slots:
            slots.start()
        self._by_topic = {topic: runs for runs in self._runs for topic in runs.plan.topics}
        self._assign()
        self._tasks = [
            self._loop.create_task(_repeat(_POLL_SECONDS, self._poll)),
            self._loop.create_task(_repeat(self._worker.commit_every, self._commit)),
        ]

    def _stop_member(self) -> None:
        async def stop() -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, *(slots.close() for slots in self._slots), return_exceptions=True)

        self._loop.run_until_complete(stop())

    def _assign(self) -> None:
        self._paused.clear()
        for name, log in self._logs.items():
            offset, text = self._commits.get(name, (Offset(0), ""))
            finished = decode_note(offset, text, Offset(len(log))).finished
            self._by_topic[name.topic].delivery.assign(name, offset, finished)
            self._positions[name] = offset

    def _poll(self) -> None:
        for name, log in self._logs.items():
            runs = self._by_topic[name.topic]
            start = self._positions[name]
            if name in self._paused or start >= len(log) or runs.wait_for_room():
                continue
            found = log[start : start + _MOST_AT_ONCE]
            self._positions[name] = Offset(start + len(found))
            runs.receive(name, [Received(Offset(each.offset), each.key, _size_bytes(each), each) for each in found])
            runs.wake()
        for runs in self._runs:
            flow = runs.flow()
            self._paused.update(flow.pause)
            self._paused.difference_update(flow.resume)

    def _is_finished(self) -> bool:
        return all(self.committed(*name) == len(log) for name, log in self._logs.items() if log)

    def _commit(self) -> None:
        for runs in self._runs:
            for commit in runs.commits():
                self._commits[commit.partition] = commit.offset, commit.metadata
                self._news.set()

    def _bury(
        self, plan: HandlerPlan, record: Record, error: BaseException, done: Callable[[BaseException | None], None]
    ) -> None:
        assert plan.dead_letters is not None
        headers = dead_letter_headers(plan, self._worker.group, record, error)
        self.dead_letters.append(replace(record, topic=plan.dead_letters, headers=headers))
        self._loop.call_soon(done, None)

    def _stop(self, failure: BaseException) -> None:
        self._failure = self._failure or failure
        self._news.set()

    def _check(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure


def _on_loop(plan: HandlerPlan) -> HandlerPlan:
    """Returns the plan with a coroutine function."""
    if plan.is_async:
        return plan
    function = plan.function

    @functools.wraps(function)
    async def call(argument: Any) -> None:
        result = function(argument)
        if inspect.isawaitable(result):
            await result

    return replace(plan, function=call, pool=None, concurrency=plan.pool or plan.concurrency)


def _size_bytes(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + headers_size_bytes(record.headers)


async def _repeat(seconds: float, function: Callable[[], None]) -> None:
    while True:
        function()
        await asyncio.sleep(seconds)

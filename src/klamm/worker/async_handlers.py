"""Runs coroutines: one task of the event loop for each run that may be outside, and no task for each record."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from klamm.core.delivery.work import Work
from klamm.worker.handler_runs import HandlerRuns
from klamm.worker.record import Record

__all__ = ["AsyncHandlers", "first_deadline_ms"]

_TURN_MS: Final = 5.0
"""How long a task goes on before the other tasks of the loop have their turn, if its coroutines never wait."""


_CALLS_BETWEEN_LOOKS: Final = 8
"""After how many calls a task looks at the clock."""


class AsyncHandlers:
    """The slots of one handler on an event loop. All methods but `wake_soon` are called on the loop's thread."""

    def __init__(self, runs: HandlerRuns, loop: asyncio.AbstractEventLoop) -> None:
        self._runs = runs
        self._plan = runs.plan
        self._loop = loop
        self._idle: deque[asyncio.Future[None]] = deque()
        self._outside: dict[asyncio.Task[None], list[Work]] = {}
        self._fenced: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_waking = False
        self._is_closed = False
        runs.wake = self.wake_soon

    def start(self) -> None:
        """Starts the slots."""
        self._tasks = [self._loop.create_task(self._slot()) for _ in range(self._plan.concurrency)]

    def wake_soon(self) -> None:
        """Wakes an idle slot, from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        while self._idle:
            future = self._idle.popleft()
            if not future.done():
                future.set_result(None)
                return

    def cancel_gone(self) -> None:
        """Cancels the coroutines of partitions that are gone."""
        for task, run in self._outside.items():
            if run[0].partition.is_gone and task not in self._fenced:
                self._fenced.add(task)
                task.cancel()

    async def close(self) -> None:
        """Cancels all slots."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()

    async def _slot(self) -> None:
        try:
            await self._serve()
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:
            self._runs.crash(error)

    async def _serve(self) -> None:
        runs, task = self._runs, asyncio.current_task()
        assert task is not None
        plan = self._plan
        function, is_simple = plan.function, plan.batch == 1 and plan.retries.deadline is None
        finished: Sequence[Work] = ()
        turn_ends_ms = 0.0
        in_turn = 0
        while not self._is_closed:
            taken = runs.next_run(finished)
            finished = ()
            if taken is None:
                await self._rest(task, self._wait())
                turn_ends_ms = runs.clock_ms() + _TURN_MS
                continue
            if self._idle and not self._is_waking:
                # Later: a coroutine that never waits leaves nothing to do for other slots.
                self._is_waking = True
                self._loop.call_soon(self._hand_on)
            run, records = taken
            self._outside[task] = run
            try:
                if is_simple:
                    await function(records[0])
                else:
                    await self._call(run, records)
                finished = run
            except GeneratorExit:
                raise
            except BaseException as error:  # errors of other languages' libraries are no Exceptions
                self._take_error(task, run, error)
            finally:
                del self._outside[task]
                if task in self._fenced:
                    self._fenced.discard(task)
                    task.uncancel()
            if task.cancelling():
                await self._rest(task, asyncio.sleep(0))
            in_turn += 1
            if in_turn % _CALLS_BETWEEN_LOOKS == 0 and (now_ms := runs.clock_ms()) > turn_ends_ms:
                await self._rest(task, asyncio.sleep(0))
                turn_ends_ms = now_ms + _TURN_MS

    async def _rest(self, task: asyncio.Task[None], rest: Coroutine[Any, Any, None]) -> None:
        """Waits between two runs. Only `close` cancels a slot here: a coroutine that has cancelled its own task, or all
        tasks, does not end slots and fails no other record.
        """
        try:
            await rest
        except asyncio.CancelledError:
            if self._is_closed:
                raise
        while task.cancelling():
            task.uncancel()

    def _take_error(self, task: asyncio.Task[None], run: list[Work], error: BaseException) -> None:
        """Takes what a coroutine has raised. Raises it if it ends the slot."""
        is_cancelled = isinstance(error, asyncio.CancelledError)
        if is_cancelled and task in self._fenced:
            self._runs.cancelled(run)
        elif is_cancelled and self._is_closed:
            raise error
        else:  # also if something that the handler has waited for was cancelled
            self._runs.fail(run, error)

    def _hand_on(self) -> None:
        """Lets an idle slot take the next run, now or when a failed record has waited for its time."""
        self._is_waking = False
        if self._runs.delivery.has_more:
            self._wake()
        elif self._runs.delivery.has_waiting:
            self._set_timer()

    async def _call(self, run: list[Work], records: list[Record]) -> None:
        argument: Any = records[0] if self._plan.batch == 1 else records
        if (deadline_ms := first_deadline_ms(run)) is None:
            await self._plan.function(argument)
            return
        async with asyncio.timeout((deadline_ms - self._runs.clock_ms()) / 1000):
            await self._plan.function(argument)

    async def _wait(self) -> None:
        """Waits until a run may start."""
        self._set_timer()
        future = self._loop.create_future()
        self._idle.append(future)
        await future

    def _set_timer(self) -> None:
        """Wakes an idle slot when a run may start without any other event."""
        if (next_ms := self._runs.next_ms()) is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, next_ms - self._runs.clock_ms()) / 1000, self._wake)


def first_deadline_ms(run: Sequence[Work]) -> float | None:
    """Returns the first deadline of the records of a run."""
    return min((work.deadline_ms for work in run if work.deadline_ms is not None), default=None)

"""Runs plain functions: one thread for each run that may be outside, or one thread and one process."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Sequence
from threading import Condition, Thread
from typing import Any, Protocol

from klamm.core.delivery.work import Work
from klamm.worker.async_handlers import first_deadline_ms
from klamm.worker.errors import ProcessNotReady, UndecodableRecords
from klamm.worker.handler_plan import wait_for_result
from klamm.worker.handler_runs import HandlerRuns

__all__ = ["FunctionCaller", "HandlerCaller", "ThreadHandlers"]


class HandlerCaller(Protocol):
    """Calls the handler, in the thread that asks for it."""

    def wait_until_ready(self) -> None:
        """Waits until the next call may begin at once, so that no record's time passes before its call. Raises
        ProcessNotReady.
        """

    def __call__(self, argument: Any, seconds: float | None) -> None:
        """Calls the handler with a record or a batch. `seconds` is the time until the deadline. Raises what the handler
        raises, and ProcessNotReady if the handler was not called.
        """


class FunctionCaller:
    """Calls the handler in the thread itself. A thread can't be stopped, so the deadline has no effect.

    A plain function may return an awaitable, for example a decorated function a coroutine. It runs on an event loop of
    its own, in the thread: without that, the record would count as handled.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def wait_until_ready(self) -> None:
        """Returns at once: a function is always ready."""

    def __call__(self, argument: Any, seconds: float | None) -> None:
        """Calls the function."""
        result = self._function(argument)
        if result is not None and inspect.isawaitable(result):
            asyncio.run(wait_for_result(result))


class ThreadHandlers:
    """The slots of one handler. A thread starts when it is needed for the first time."""

    def __init__(self, runs: HandlerRuns, callers: Sequence[HandlerCaller]) -> None:
        self._runs = runs
        self._callers = list(callers)
        self._condition = Condition()
        self._wakes = 0
        self._idle = 0
        self._threads: list[Thread] = []
        self._is_closed = False
        runs.wake = self.wake

    def wake(self) -> None:
        """Lets one more thread look for a run."""
        with self._condition:
            if self._is_closed:
                return
            self._wakes = min(self._wakes + 1, len(self._callers))
            if self._idle:
                self._condition.notify()
            elif len(self._threads) < len(self._callers):
                caller = self._callers[len(self._threads)]
                name = f"{self._runs.plan.name}-{len(self._threads)}"
                # A daemon: a function that never returns must not keep the process.
                thread = Thread(target=self._slot, args=(caller,), name=name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def close(self, seconds: float) -> None:
        """Ends the threads. Waits at most `seconds`, for all threads together that run a function."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()
        ends = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, ends - time.monotonic()))

    def _slot(self, caller: HandlerCaller) -> None:
        try:
            self._serve(caller)
        except BaseException as error:
            if not self._is_closed:
                self._runs.crash(error)

    def _serve(self, caller: HandlerCaller) -> None:
        runs, is_single = self._runs, self._runs.plan.batch == 1
        finished: Sequence[Work] = ()
        caller.wait_until_ready()
        while not self._is_closed:
            taken = runs.next_run(finished)
            finished = ()
            if taken is None:
                if not self._wait():
                    return
                continue
            # Another thread takes the next run, or waits for the next attempt of a failed record.
            if (runs.delivery.has_more or runs.delivery.has_waiting) and (
                self._idle or len(self._threads) < len(self._callers)
            ):
                self.wake()
            run, records = taken
            deadline_ms = first_deadline_ms(run)
            seconds = None if deadline_ms is None else (deadline_ms - runs.clock_ms()) / 1000
            try:
                caller(records[0] if is_single else records, seconds)
                finished = run
            except UndecodableRecords as error:
                runs.take_out(run, error.positions, error)
            except ProcessNotReady:
                runs.put_back(run)
                raise
            except BaseException as error:  # CancelledError and errors of other languages' libraries too
                runs.fail(run, error)
                caller.wait_until_ready()

    def _wait(self) -> bool:
        """Waits until a run may start. Returns False at the end."""
        next_ms = self._runs.next_ms()
        timeout = None if next_ms is None else max(0.001, (next_ms - self._runs.clock_ms()) / 1000)
        with self._condition:
            if not self._wakes and not self._is_closed:
                self._idle += 1
                self._condition.wait(timeout)
                self._idle -= 1
            self._wakes = max(0, self._wakes - 1)
            return not self._is_closed

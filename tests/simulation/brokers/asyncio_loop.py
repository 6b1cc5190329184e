"""asyncio's event loop for one simulated process: its callbacks, timers, tasks and threads are events of the world.

The broker's services and the clients run on it unchanged. It has no sockets and no threads. Callbacks run in the order
in which they were scheduled, at the world's time. A job of a thread is one step, some simulated time after its
submission.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextvars import Context
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from tests.simulation.logs.device import Crash
from tests.simulation.loop import Event, EventLoop, Process

__all__ = ["ProcessLoop", "Threads"]

T = TypeVar("T")
U = TypeVar("U")

_AT_ONCE: Final = ("klamm-recovery", "klamm-close")
"""Thread pools whose callers wait for each job: the job runs when it is submitted."""
_ONE_AFTER_THE_OTHER: Final = ("klamm-storage", "coordinator")


class ProcessLoop:
    """The event loop of one process. No callback runs after `end`.

    `failed` receives the exceptions that no code handles.
    """

    def __init__(
        self,
        events: EventLoop,
        process: Process,
        failed: Callable[[BaseException], None],
        *,
        thread_ms: Callable[[str], float] = lambda name: 0.0,
    ) -> None:
        """`thread_ms` returns the duration of the next job of a thread pool, by the name of the pool."""
        self._events = events
        self._process = process
        self._failed = failed
        self._thread_ms = thread_ms
        self._tasks: list[asyncio.Task[Any]] = []
        self._threads = Threads(self, "klamm-default")
        self._is_over = False
        self._as_asyncio = cast(asyncio.AbstractEventLoop, self)

    @property
    def went_on_ms(self) -> float:
        """When the process went on after its last pause; minus infinity if there was none."""
        return self._process.went_on_ms

    def end(self) -> None:
        """Ends the process and closes its coroutines; what a coroutine does while it is closed has no effect."""
        self._is_over = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # Some coroutines have never started.
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    coroutine = task.get_coro()
                    assert coroutine is not None
                    coroutine.close()
            self._tasks.clear()

    def run(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Runs a callback as a step of this process."""
        if asyncio._get_running_loop() is not self._as_asyncio:
            asyncio._set_running_loop(self._as_asyncio)
        try:
            callback(*arguments)
        except Crash:
            pass  # The device has noted the crash.
        except Exception as error:
            self._failed(error)

    # The part of asyncio's interface that klamm uses.

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._is_over

    def is_closed(self) -> bool:
        return self._is_over

    def time(self) -> float:
        return self._events.now_ms / 1000

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:
        return self._enter(self._events.now_ms, callback, args)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self._enter(self._events.now_ms + self._thread_ms("wake"), callback, args)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return cast(asyncio.TimerHandle, self._enter(self._events.now_ms + max(delay, 0) * 1000, callback, args))

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return cast(asyncio.TimerHandle, self._enter(max(when * 1000, self._events.now_ms), callback, args))

    def receive_at(self, at_ms: float, callback: Callable[..., object], *arguments: Any) -> None:
        """Runs a callback when the process reads a socket: a process that was stopped does this before all else."""
        self._enter(at_ms, callback, arguments, is_message=True)

    def _enter(
        self,
        at_ms: float,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        *,
        is_message: bool = False,
    ) -> asyncio.Handle:
        event = Event(partial(self.run, callback, *arguments), self._process, is_message)
        if not self._is_over:
            self._events.enter(at_ms, event)
        return cast(asyncio.Handle, event)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._as_asyncio)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        task = asyncio.Task(cast(Coroutine[Any, Any, Any], coro), loop=self._as_asyncio, name=name or "task")
        if len(self._tasks) > 100:
            self._tasks = [each for each in self._tasks if not each.done()]
        self._tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        outcome: asyncio.Future[T] = self.create_future()

        def report(future: Future[T]) -> None:
            self.call_soon_threadsafe(self._settle, outcome, future)

        threads = executor if isinstance(executor, Threads) else self._threads
        threads.submit(func, *args).add_done_callback(report)
        return outcome

    def _settle(self, outcome: asyncio.Future[T], future: Future[T]) -> None:
        if outcome.done():
            return
        if (error := future.exception()) is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(future.result())

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._is_over and (error := context.get("exception")) is not None:
            self._failed(error)


class Threads:
    """A simulated `ThreadPoolExecutor`."""

    def __init__(self, loop: ProcessLoop, name: str) -> None:
        self._loop = loop
        self._name = name
        self._jobs: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self._is_at_once = name in _AT_ONCE
        self._is_in_order = name in _ONE_AFTER_THE_OTHER
        self._busy_until_ms = 0.0

    def submit(self, job: Callable[..., T], *arguments: Any) -> Future[T]:
        """See `Executor.submit`."""
        future: Future[T] = Future()
        entry = future, job, arguments
        self._jobs.append(entry)
        if self._is_at_once:
            self._run(entry)
            return future
        loop = self._loop
        at_ms = max(loop._events.now_ms, self._busy_until_ms) + loop._thread_ms(self._name)
        if self._is_in_order:
            self._busy_until_ms = at_ms
        loop._enter(at_ms, self._run, (entry,))
        return future

    def map(self, job: Callable[[U], T], items: Iterable[U]) -> Iterator[T]:
        """See `Executor.map`."""
        return iter([job(item) for item in items])

    def _run(self, entry: tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]) -> None:
        if entry not in self._jobs:
            return  # A shutdown has already run or cancelled the job.
        self._jobs.remove(entry)
        future, job, arguments = entry
        if not future.set_running_or_notify_cancel():
            return
        try:
            outcome = job(*arguments)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(outcome)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancels the submitted jobs, or runs them now. See `Executor.shutdown`."""
        if cancel_futures:
            self._jobs.clear()
        while wait and self._jobs:
            self._run(self._jobs[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()

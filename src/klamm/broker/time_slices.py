"""Runs long work in small steps, so that one request doesn't block the others.

A piece of work is a generator (`Work`). It yields None wherever other work may run, at least once a millisecond; the
driver decides whether to switch. It yields an `Awaited` where it has to wait (`wait_for`). Its return value is the
result. So the work itself uses no clock, and a test can count its steps.

Pieces of work take turns: in one iteration of the event loop only one of them runs, for `STEP_S`, however many there
are. Everything else that is ready, above all small requests, runs in between. A turn lasts `STEPS_IN_A_TURN` steps. So
most work is done before the next one begins, and little unfinished work takes memory.

Between two steps other requests may change the data, so a large response is no snapshot of one moment. Clients can't
tell the difference: the data may also change while the response is on its way.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, cast

from klamm.protocol.codec_in_steps import dismantle, is_small
from klamm.runtime.answers import Answer

if TYPE_CHECKING:
    from _typeshed import SupportsRichComparison

__all__ = [
    "Awaited",
    "InSteps",
    "Progress",
    "STEP_S",
    "Work",
    "WorkTask",
    "answer_of",
    "as_work",
    "begin",
    "begin_large",
    "begin_later",
    "finish_in_steps",
    "free_later",
    "sorted_in_steps",
    "turn",
    "turns_given",
    "wait_for",
]

R = TypeVar("R")
T = TypeVar("T", bound="SupportsRichComparison")
STEPS_IN_A_TURN: Final = 5
_TURNS: Final = "klamm_turns"


class Awaited(Generic[R]):
    """An awaitable that a piece of work waits for, and its outcome."""

    __slots__ = ("_awaitable", "_error", "_value")

    def __init__(self, awaitable: Awaitable[R]) -> None:
        self._awaitable = awaitable
        self._error: Exception | None = None
        self._value: R | None = None

    async def settle(self) -> None:
        """Waits for the awaitable and keeps its result or exception for the work."""
        try:
            self._value = await self._awaitable
        except Exception as error:
            self._error = error

    def result(self) -> R:
        """Returns the result of the awaitable, or raises its exception."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # it refers to this frame
        return cast(R, self._value)


Work: TypeAlias = Generator[Awaited[Any] | None, None, R]

_SORTED_AT_ONCE: Final = 2000
"""Number of strings that are sorted in a millisecond."""
STEP_S: Final = 0.002
"""Seconds that work runs before other work has its turn. Its last part may be longer than the others, but the step
should stay far below ten milliseconds."""


class Progress:
    """The progress of a request that is handled in steps, for its connection."""

    __slots__ = ("_is_read", "_release", "may_stop")

    def __init__(self) -> None:
        self.may_stop = True
        """Whether the work may stop unfinished if the client disconnects."""
        self._is_read = False
        self._release: Callable[[], None] | None = None

    def frame_is_read(self) -> None:
        """Releases the frame, which the work no longer needs."""
        self._is_read = True
        if self._release is not None:
            self._release()
            self._release = None

    def when_frame_is_read(self, release: Callable[[], None]) -> None:
        """Calls `release` when the work no longer needs the frame, or has stopped."""
        if self._is_read:
            release()
        else:
            self._release = release


class WorkTask(asyncio.Task[R]):
    """The task of a request whose work did not end at once."""

    def __init__(self, going_on: Coroutine[Any, Any, R], progress: Progress) -> None:
        super().__init__(going_on, loop=asyncio.get_running_loop())
        self.progress = progress
        self.add_done_callback(lambda _: progress.frame_is_read())


class InSteps(WorkTask[R]):
    """The task of a request whose work did not end within the first step, and does not wait for an awaitable.

    The request is not decided before the task is done, so no later request of the same client may be handled.
    """


def begin_large(work: Work[R], progress: Progress) -> R | asyncio.Task[R]:
    """Begins work that is likely to take several steps. If other work waits for its turn, this work waits, too."""
    if _turns_of(asyncio.get_running_loop()).are_awaited:
        return InSteps(_go_on(work, None), progress)
    return begin(work, progress)


def begin_later(work: Work[R], progress: Progress) -> asyncio.Task[R]:
    """Schedules work for its turn, without a first step at once."""
    return InSteps(_go_on(work, None), progress)


def begin(work: Work[R], progress: Progress | None = None) -> R | asyncio.Task[R]:
    """Runs the first step at once. Returns the result if the work is done, otherwise a task that continues it."""
    began = monotonic()
    try:
        awaited = _step(work, began + STEP_S)
    except StopIteration as end:
        result: R = end.value
        return result
    if awaited is None:
        return InSteps(_go_on(work, None), progress or Progress())
    return WorkTask(_go_on(work, awaited, STEP_S - (monotonic() - began)), progress or Progress())


async def finish_in_steps(work: Work[R]) -> R:
    """Runs the work, the first step at once, and returns its result."""
    return await _go_on(work, None, STEP_S)


def _step(work: Work[Any], ends: float) -> Awaited[Any] | None:
    """Runs the work until it waits or the time `ends` is reached. Returns the `Awaited`, or None if time is up.

    Raises StopIteration with the result when the work is done.
    """
    while True:
        awaited = next(work)
        if awaited is not None:
            return awaited
        if monotonic() >= ends:
            return None


async def _go_on(work: Work[R], awaited: Awaited[Any] | None, left_s: float = 0.0) -> R:
    """Runs the rest of the work. `left_s` is the rest of the current step's time; waiting does not reduce it."""
    steps = 0
    try:
        while True:
            if awaited is not None:
                await awaited.settle()
            if left_s <= 0:
                await turn(goes_on=steps % STEPS_IN_A_TURN > 0)
                steps += 1
                left_s = STEP_S
            began = monotonic()
            try:
                awaited = _step(work, began + left_s)
            except StopIteration as end:
                result: R = end.value
                return result
            left_s -= monotonic() - began
    finally:
        work.close()


def wait_for(awaitable: Awaitable[R]) -> Work[R]:
    """Waits within a piece of work. Returns the result of the awaitable or raises its exception.

    The time that the awaitable itself runs does not count for the step, so it should do little. Long computations
    should be separate work.
    """
    awaited = Awaited(awaitable)
    yield awaited
    return awaited.result()


def as_work(steps: Generator[Any, None, R]) -> Work[R]:
    """Turns a generator that waits for nothing into work. Drops the values that it yields."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        yield None


def answer_of(answer: Answer[R]) -> Work[R]:
    """Returns the answer, and waits for it first if it is awaitable."""
    if hasattr(answer, "__await__"):
        return (yield from wait_for(cast("Awaitable[R]", answer)))
    return answer


def sorted_in_steps(items: Iterable[T]) -> Work[Iterator[T]]:
    """Sorts items in steps: sorts short lists and merges them, because a very long list would take one long step.

    The returned iterator merges, a little with each item.
    """
    runs: list[list[T]] = [[]]
    for item in items:
        if len(runs[-1]) == _SORTED_AT_ONCE:
            runs[-1].sort()
            runs.append([])
            yield None
        runs[-1].append(item)
    runs[-1].sort()
    return heapq.merge(*runs)


class _Turns:
    """The work that waits for a turn on one event loop, in order."""

    __slots__ = ("_is_scheduled", "_loop", "_waiting", "given", "tasks")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False
        self.given = 0
        """Number of steps that were given so far."""
        self.tasks: set[asyncio.Task[None]] = set()
        """Tasks that no caller awaits. The loop has only weak references to its tasks."""

    @property
    def are_awaited(self) -> bool:
        """Whether work waits for its turn."""
        return self._is_scheduled

    def wait(self, goes_on: bool) -> asyncio.Future[None]:
        """Returns a future that is done at the caller's turn. With `goes_on`, the caller is next in the queue."""
        future = self._loop.create_future()
        if goes_on:
            self._waiting.appendleft(future)
        else:
            self._waiting.append(future)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._give)
        return future

    def _give(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                self.given += 1
                future.set_result(None)
                break
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            self._loop.call_soon(self._give)


def _turns_of(loop: asyncio.AbstractEventLoop) -> _Turns:
    # Stored on the loop: a global table would keep every loop alive, because waiting futures refer to their loop.
    kept_by_loop = vars(loop)
    turns: _Turns | None = kept_by_loop.get(_TURNS)
    if turns is None:
        turns = kept_by_loop[_TURNS] = _Turns(loop)
    return turns


async def turn(*, goes_on: bool = False) -> None:
    """Waits for the turn of a piece of work, or, with `goes_on`, for the next step in its turn.

    In one iteration of the loop only one piece of work runs a step.
    """
    await _turns_of(asyncio.get_running_loop()).wait(goes_on)


def turns_given(loop: asyncio.AbstractEventLoop) -> int:
    """Returns the number of steps that work has been given on a loop."""
    return _turns_of(loop).given


def free_later(*things: object) -> None:
    """Frees large messages, lists, dictionaries and sets in steps, as separate work with its own turns.

    The caller must drop its references before it next yields or returns to the loop: an object with another owner is
    left unchanged. A function may pass its local variables right before it returns. Small objects are left to the
    caller, and so are all objects if no event loop runs, because no other work waits then.
    """
    large = [thing for thing in things if not is_small(thing)]
    if not large:
        return
    try:
        turns = _turns_of(asyncio.get_running_loop())
    except RuntimeError:
        return
    task = asyncio.ensure_future(_go_on(_dismantle_all(large), None))
    turns.tasks.add(task)
    task.add_done_callback(turns.tasks.discard)


def _dismantle_all(things: list[object]) -> Work[None]:
    while things:
        yield from dismantle(things.pop())

"""Work that may take long is done a little at a time, so that one request doesn't keep the others waiting.

A piece of work is a generator (`Work`). It yields None wherever others may have their turn, at least once a
millisecond; the driver decides whether they do. It yields an `Awaited` where it has to wait (`wait_for`). What it
returns is the result. So the work itself knows no clock, and a test can count its steps.

Works take turns: in one iteration of the event loop only one of them is continued, for `STEP_S`, however many there
are. All else that is ready, small requests first of all, comes in between. A work goes on for `STEPS_IN_A_TURN` before
it is the next one's turn, so most are done when the next one begins, and few lie half done in memory.

Between two steps others may change what the work is about, so a large answer is no picture of one moment. Clients can't
tell: what it names may change while the answer travels, too.
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
    """What a piece of work waits for."""

    __slots__ = ("_awaitable", "_error", "_value")

    def __init__(self, awaitable: Awaitable[R]) -> None:
        self._awaitable = awaitable
        self._error: Exception | None = None
        self._value: R | None = None

    async def settle(self) -> None:
        """Waits; the outcome is for the work."""
        try:
            self._value = await self._awaitable
        except Exception as error:
            self._error = error

    def result(self) -> R:
        """What came of it, or raises what was raised."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # it refers to this frame
        return cast(R, self._value)


Work: TypeAlias = Generator[Awaited[Any] | None, None, R]

SORTED_AT_ONCE: Final = 2000
"""So many strings are sorted in a millisecond."""
STEP_S: Final = 0.002
"""Work goes on for so long before others have their turn: with its last part, which may be longer than the others, it
is to stay far below ten milliseconds."""


class Progress:
    """How far a request has come that is worked on in steps, for the connection that it came from."""

    __slots__ = ("_is_read", "_release", "may_stop")

    def __init__(self) -> None:
        self.may_stop = True
        """Whether the work can be left unfinished when the client has gone."""
        self._is_read = False
        self._release: Callable[[], None] | None = None

    def frame_is_read(self) -> None:
        """Says that the frame is needed no more."""
        self._is_read = True
        if self._release is not None:
            self._release()
            self._release = None

    def when_frame_is_read(self, release: Callable[[], None]) -> None:
        """Calls `release` when the frame is needed no more, or the work has stopped."""
        if self._is_read:
            release()
        else:
            self._release = release


class WorkTask(asyncio.Task[R]):
    """A request whose work has not come to its end at once."""

    def __init__(self, going_on: Coroutine[Any, Any, R], progress: Progress) -> None:
        super().__init__(going_on, loop=asyncio.get_running_loop())
        self.progress = progress
        self.add_done_callback(lambda _: progress.frame_is_read())


class InSteps(WorkTask[R]):
    """A request whose work has not come to its end within the first step.

    Until it is done the request is not decided, so no later one of the same client may be handled.
    """


def begin_large(work: Work[R], progress: Progress) -> R | asyncio.Task[R]:
    """Begins work that is likely to take several steps: if other work waits for its turn, so does this."""
    if _turns_of(asyncio.get_running_loop()).are_awaited:
        return InSteps(_go_on(work, None), progress)
    return begin(work, progress)


def begin_later(work: Work[R], progress: Progress) -> asyncio.Task[R]:
    """Begins work when it is its turn, and not at once."""
    return InSteps(_go_on(work, None), progress)


def begin(work: Work[R], progress: Progress | None = None) -> R | asyncio.Task[R]:
    """Does the first step at once: the result if that was all, else a task that goes on."""
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
    """Does the work, the first step at once, and returns its result."""
    return await _go_on(work, None, STEP_S)


def _step(work: Work[Any], ends: float) -> Awaited[Any] | None:
    """Goes on with the work until it waits for something, which is returned, or the time is up: then None.

    Raises StopIteration with the result at its end.
    """
    while True:
        awaited = next(work)
        if awaited is not None:
            return awaited
        if monotonic() >= ends:
            return None


async def _go_on(work: Work[R], awaited: Awaited[Any] | None, left_s: float = 0.0) -> R:
    """Does the rest of the work. `left_s` is what is left of its step, whether it waits meanwhile or not."""
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
    """Waits within a piece of work; returns or raises what comes of the awaitable.

    What the awaitable itself does is no part of the step's time, so let it do little: much is work of its own.
    """
    awaited = Awaited(awaitable)
    yield awaited
    return awaited.result()


def as_work(steps: Generator[Any, None, R]) -> Work[R]:
    """Takes the steps of a generator that waits for nothing; what it yields is nobody's business."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        yield None


def answer_of(answer: Answer[R]) -> Work[R]:
    """The answer itself, or what comes of waiting for it."""
    if hasattr(answer, "__await__"):
        return (yield from wait_for(cast("Awaitable[R]", answer)))
    return answer


def sorted_in_steps(items: Iterable[T]) -> Work[Iterator[T]]:
    """The items in order. A list of very many would be sorted in one long step, so short ones are sorted and merged.

    The iterator does the rest of the work: a little with each item.
    """
    runs: list[list[T]] = [[]]
    for item in items:
        if len(runs[-1]) == SORTED_AT_ONCE:
            runs[-1].sort()
            runs.append([])
            yield None
        runs[-1].append(item)
    runs[-1].sort()
    return heapq.merge(*runs)


class _Turns:
    """Who waits for a turn on one event loop, in order."""

    __slots__ = ("_is_scheduled", "_loop", "_waiting", "given", "tasks")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_scheduled = False
        self.given = 0
        """How many turns there have been."""
        self.tasks: set[asyncio.Task[None]] = set()
        """What nobody waits for; a loop refers to its tasks only weakly."""

    @property
    def are_awaited(self) -> bool:
        """Whether there is work that is not done yet."""
        return self._is_scheduled

    def wait(self, goes_on: bool) -> asyncio.Future[None]:
        """Done when it is the caller's turn, or when it may go on with it."""
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
    # The loop keeps them itself. A table by loops would keep every loop for ever: what waits for its turn refers to it.
    kept_by_loop = vars(loop)
    turns: _Turns | None = kept_by_loop.get(_TURNS)
    if turns is None:
        turns = kept_by_loop[_TURNS] = _Turns(loop)
    return turns


async def turn(*, goes_on: bool = False) -> None:
    """Waits for the turn of a piece of work, or for the next step of it where its turn has not ended.

    In one iteration of the loop only one takes a step.
    """
    await _turns_of(asyncio.get_running_loop()).wait(goes_on)


def turns_given(loop: asyncio.AbstractEventLoop) -> int:
    """How many turns work has had on a loop."""
    return _turns_of(loop).given


def free_later(*things: object) -> None:
    """Frees large messages, lists, dictionaries and sets in steps, when it is their turn.

    The caller must not refer to them any more when it next lets others have their turn: what has another owner then
    stays as it is. A function may pass its own variables right before it returns. Small ones are left to it, and so are
    all where no event loop runs, and nobody waits.
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

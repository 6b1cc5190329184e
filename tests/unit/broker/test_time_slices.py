"""Tests work that runs in small steps, in turns with other work."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.support.event_loop import in_loop
from tests.support.steps import finish

from klamm.broker import time_slices as time_slices_module
from klamm.broker.time_slices import (
    STEPS_IN_A_TURN,
    InSteps,
    Progress,
    Work,
    begin,
    finish_in_steps,
    free_later,
    sorted_in_steps,
    turn,
    wait_for,
)
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest


@pytest.fixture
def each_step_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every yield end its step."""
    monkeypatch.setattr(time_slices_module, "STEP_S", -1.0)


@pytest.fixture
def no_step_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes no yield end its step."""
    monkeypatch.setattr(time_slices_module, "STEP_S", 3600.0)


def count_to(count: int, seen: Callable[[int], None] = lambda _: None) -> Work[int]:
    """Takes the given number of steps."""
    for number in range(count):
        seen(number)
        yield None
    return count


@in_loop
async def test_what_fits_into_a_step_is_done_at_once(no_step_ends: None) -> None:
    """Work that fits into one step is done at once, without a task."""
    assert begin(count_to(1000)) == 1000


@in_loop
async def test_what_takes_longer_goes_on_as_a_task(each_step_ends: None) -> None:
    """Longer work continues as a task after an immediate first step."""
    seen: list[int] = []
    task = begin(count_to(3, seen.append))
    assert isinstance(task, InSteps)
    assert seen == [0]
    assert await task == 3
    assert seen == [0, 1, 2]


@in_loop
async def test_all_else_comes_between_two_steps(each_step_ends: None) -> None:
    """A callback that is scheduled after the first step runs before the second."""
    seen: list[object] = []
    task = begin(count_to(2, seen.append))
    asyncio.get_running_loop().call_soon(seen.append, "other")
    assert isinstance(task, InSteps)
    await task
    assert seen == [0, "other", 1]


@in_loop
async def test_one_work_has_its_turn_in_an_iteration_of_the_loop(each_step_ends: None) -> None:
    """Each iteration of the loop gives one work its turn, in order of arrival, so a hundred large requests weigh no
    more than one.

    A turn has several steps, so work that is a little longer than a step ends in its first turn.
    """
    seen: list[str] = []

    def work(name: str) -> Work[None]:
        for _ in range(STEPS_IN_A_TURN + 3):
            seen.append(name)
            yield None

    tasks = [begin(work(name)) for name in "abc"]
    assert seen == ["a", "b", "c"]
    iterations = 0
    longest = 0
    while any(not task.done() for task in tasks if isinstance(task, asyncio.Task)):
        before = len(seen)
        await asyncio.sleep(0)
        iterations += 1
        longest = max(longest, len(seen) - before)
    assert longest == 1
    turns = [name * STEPS_IN_A_TURN for name in "abc"] + [name * 2 for name in "abc"]
    assert "".join(seen[3:]) == "".join(turns)


@in_loop
async def test_work_waits_for_what_it_needs(no_step_ends: None) -> None:
    """Work that waits for a future continues with its result or its error."""
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    failed: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def work() -> Work[str]:
        number = yield from wait_for(future)
        try:
            yield from wait_for(failed)
        except ValueError as error:
            return f"{number} {error}"
        return "not raised"

    task = begin(work())
    assert isinstance(task, asyncio.Task)
    assert not isinstance(task, InSteps), "it is decided, it only waits"
    future.set_result(7)
    failed.set_exception(ValueError("eight"))
    assert await task == "7 eight"


@in_loop
async def test_waiting_for_what_is_there_does_not_make_a_step_longer(each_step_ends: None) -> None:
    """Waiting for a finished result still ends the step, so that other callbacks run in between."""
    seen: list[object] = []

    async def ready() -> None:
        seen.append("step")

    def work() -> Work[None]:
        for _ in range(3):
            yield from wait_for(ready())

    task = asyncio.ensure_future(finish_in_steps(work()))
    for _ in range(30):
        asyncio.get_running_loop().call_soon(seen.append, "other")
        await asyncio.sleep(0)
    await task
    assert seen.index("other") < len(seen) - 1
    assert not any(seen[place : place + 2] == ["step", "step"] for place in range(len(seen)))


@in_loop
async def test_work_that_is_cancelled_is_closed(each_step_ends: None) -> None:
    """Cancelled work is closed, and its frame is returned."""
    closed: list[str] = []

    def work() -> Work[None]:
        try:
            while True:
                yield None
        finally:
            closed.append("work")

    progress = Progress()
    task = begin(work(), progress)
    assert isinstance(task, InSteps)
    task.progress.when_frame_is_read(lambda: closed.append("frame"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert sorted(closed) == ["frame", "work"]


@in_loop
async def test_frame_is_given_back_as_soon_as_it_is_read(each_step_ends: None) -> None:
    """A frame is returned as soon as it is read, because a request may wait for minutes after that."""
    given_back: list[bool] = []
    progress = Progress()
    progress.when_frame_is_read(lambda: given_back.append(True))
    assert not given_back
    progress.frame_is_read()
    progress.frame_is_read()
    assert given_back == [True]
    progress.when_frame_is_read(lambda: given_back.append(False))
    assert given_back == [True, False]


@in_loop
async def test_turn_of_work_that_was_cancelled_goes_to_the_next(each_step_ends: None) -> None:
    """The turn of cancelled work goes to the next work."""
    first, second = asyncio.ensure_future(turn()), asyncio.ensure_future(turn())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait_for(second, 10)


@in_loop
async def test_large_message_is_freed_when_it_is_its_turn(each_step_ends: None) -> None:
    """A large message is freed in a turn of its own, not in the step that used it last, and only if no reference is
    left."""
    message = FindCoordinatorRequest(coordinator_keys=[str(number) for number in range(1000)])
    keys = message.coordinator_keys
    free_later(message)
    assert len(keys) == 1000
    del message
    await asyncio.sleep(0)
    await turn()
    assert len(keys) == 1000, "it is used here"


@in_loop
async def test_variables_of_a_function_are_freed_after_it_has_returned(each_step_ends: None) -> None:
    """The variables of a function are freed in small steps after the function returns."""

    class Freed:
        count = 0

        def __del__(self) -> None:
            Freed.count += 1

    def gather() -> None:
        gathered = {number: Freed() for number in range(1000)}
        free_later(gathered)

    gather()
    assert Freed.count == 0
    for _ in range(20):
        before = Freed.count
        await asyncio.sleep(0)
        assert Freed.count - before <= 256
    assert Freed.count == 1000


def test_variables_are_left_to_the_function_where_no_loop_runs() -> None:
    """Without a running loop, `free_later` leaves the variables to the function."""
    gathered = list(range(1000))
    free_later(gathered)
    assert len(gathered) == 1000


@in_loop
async def test_error_that_was_waited_for_does_not_keep_frames(no_step_ends: None) -> None:
    """An awaited error does not keep frames alive; the error and the work's variables are freed without the garbage
    collector."""
    gathered: list[weakref.ref[Gathered]] = []

    async def fail() -> None:
        raise ValueError

    def work() -> Work[None]:
        much = Gathered()
        gathered.append(weakref.ref(much))
        yield from wait_for(fail())

    gc.disable()
    try:
        with suppress(ValueError):
            await finish_in_steps(work())
        assert gathered[0]() is None
    finally:
        gc.enable()


class Gathered:
    """An object that a weak reference can point to."""


@pytest.mark.parametrize("count", [0, 1, 1999, 2000, 2001, 9000])
def test_long_lists_are_sorted_in_steps(count: int) -> None:
    """Long lists are sorted in steps of a few thousand elements, with the same result as `sorted`."""
    items = [f"{number * 7919 % 10_007:05}" for number in range(count)]
    assert list(finish(sorted_in_steps(items))) == sorted(items)

"""Tests `then` and `gather` with answers that are available and answers that are still to come."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any, TypeVar, cast

from tests.unit.runtime.fake_ports import Pledge

from klamm.runtime.answers import Answer, gather, then

T = TypeVar("T")


def finish(answer: Answer[T], pledge: Pledge, result: object) -> T:
    """Completes the pledge and runs the answer to its end."""
    waiting: Generator[Any, None, T] = cast("Awaitable[T]", answer).__await__()
    next(waiting)
    pledge.set_result(result)
    try:
        next(waiting)
    except StopIteration as finished:
        return cast(T, finished.value)
    raise AssertionError("not finished")


def test_answer_that_is_there_is_changed_at_once() -> None:
    """`then` changes an available answer at once, without a coroutine."""
    assert then(2, lambda value: value + 1) == 3


def test_answer_to_come_is_changed_when_it_comes() -> None:
    """For an answer that is still to come, `then` returns an awaitable of the changed answer."""
    pledge = Pledge()
    answer: Answer[int] = pledge
    assert finish(then(answer, lambda value: value + 1), pledge, 2) == 3


def test_answers_are_gathered_in_order() -> None:
    """`gather` returns the answers in order: at once if all are available, otherwise when the last one comes."""
    assert gather([1, 2, 3]) == [1, 2, 3]
    pledge = Pledge()
    answers: list[Answer[int]] = [1, pledge, 3]
    assert finish(gather(answers), pledge, 2) == [1, 2, 3]

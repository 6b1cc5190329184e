"""Answers that are either values or awaitables.

Most requests are answered within the call. A coroutine and a task for each request would cost more than its decision.
So an answer is either the value itself or an awaitable of it, and a value is processed at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar, cast

__all__ = ["Answer", "gather", "then"]

T = TypeVar("T")
R = TypeVar("R")

Answer: TypeAlias = T | Awaitable[T]


def then(answer: Answer[T], change: Callable[[T], R]) -> Answer[R]:
    """Returns the result of `change` on the answer, at once or as an awaitable. A T must not itself be awaitable."""
    if hasattr(answer, "__await__"):
        return _then_later(cast("Awaitable[T]", answer), change)
    return change(answer)


def gather(answers: Sequence[Answer[T]]) -> Answer[list[T]]:
    """Returns all the answers in order, at once or as an awaitable."""
    if any(hasattr(answer, "__await__") for answer in answers):
        return _gather_later(answers)
    return cast("list[T]", list(answers))


async def _then_later(answer: Awaitable[T], change: Callable[[T], R]) -> R:
    return change(await answer)


async def _gather_later(answers: Sequence[Answer[T]]) -> list[T]:
    # All answers are in progress already, so awaiting them one after the other costs nothing.
    return [await cast("Awaitable[T]", answer) if hasattr(answer, "__await__") else answer for answer in answers]

"""Answers that may be there already, or may still have to be waited for.

Most requests are answered in the call that brings them. Making a coroutine and a task for each would cost more than
deciding it, so an answer is either the thing itself or an awaitable of it, and what is done with it is done at once
where that is possible.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar, cast

__all__ = ["Answer", "gather", "then"]

T = TypeVar("T")
R = TypeVar("R")

Answer: TypeAlias = T | Awaitable[T]


def then(answer: Answer[T], change: Callable[[T], R]) -> Answer[R]:
    """What `change` makes of the answer. A T must not itself be awaitable."""
    if hasattr(answer, "__await__"):
        return _then_later(cast("Awaitable[T]", answer), change)
    return change(answer)


def gather(answers: Sequence[Answer[T]]) -> Answer[list[T]]:
    """All the answers, in order."""
    if any(hasattr(answer, "__await__") for answer in answers):
        return _gather_later(answers)
    return cast("list[T]", list(answers))


async def _then_later(answer: Awaitable[T], change: Callable[[T], R]) -> R:
    return change(await answer)


async def _gather_later(answers: Sequence[Answer[T]]) -> list[T]:
    # All of them are under way already: to wait for one after the other costs nothing.
    return [await cast("Awaitable[T]", answer) if hasattr(answer, "__await__") else answer for answer in answers]

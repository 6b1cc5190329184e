"""Runs work in steps to its end, for tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, ParamSpec, TypeVar, overload

from klamm.broker.time_slices import finish_in_steps

__all__ = ["at_once", "finish", "finished"]

R = TypeVar("R")
P = ParamSpec("P")


def finish(work: Generator[Any, None, R]) -> R:
    """Runs work that waits for nothing, and returns its result."""
    while True:
        try:
            awaited = next(work)
        except StopIteration as end:
            result: R = end.value
            return result
        assert awaited is None


def at_once(make: Callable[P, Generator[Any, None, R]]) -> Callable[P, R]:
    """Converts a function that returns work into a function that runs the work and returns its result."""

    def done(*args: P.args, **kwargs: P.kwargs) -> R:
        return finish(make(*args, **kwargs))

    return done


@overload
async def finished(answer: Generator[Any, None, R]) -> R: ...


@overload
async def finished(answer: Awaitable[R]) -> R: ...


@overload
async def finished(answer: Any) -> Any: ...


async def finished(answer: Any) -> Any:
    """Returns the result of a handler's answer, which is a value, an awaitable, or work in steps."""
    if isinstance(answer, Generator):
        return await finish_in_steps(answer)
    if isinstance(answer, Awaitable):
        return await answer
    return answer

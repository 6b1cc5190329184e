"""Tests when requests that an append has woken read again."""

from __future__ import annotations

import asyncio
from functools import partial

from tests.support.event_loop import in_loop

from klamm.broker.partitions.woken_fetches import WokenFetches

MANY = 100


@in_loop
async def test_an_error_in_one_request_keeps_no_other_one_waiting() -> None:
    """The event loop reports the error, and the requests behind it read, in their order."""
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    woken = WokenFetches()
    done: list[int] = []
    woken.add(lambda: done.append(-1))
    woken.add(lambda: done.remove(0))
    for number in range(MANY):
        woken.add(partial(done.append, number))
    for _ in range(MANY):
        await asyncio.sleep(0)

    assert done == [-1, *range(MANY)]
    assert [type(error) for error in errors] == [ValueError]

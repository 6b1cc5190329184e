"""Tests of the thread of an event loop: it goes on whatever tasks raise."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from klamm.worker import event_loop_thread
from klamm.worker.event_loop_thread import EventLoopThread


async def _quit() -> None:
    sys.exit(3)


async def _wait_for_a_task_that_quits() -> str:
    try:
        await asyncio.wait_for(_quit(), 30)
    except SystemExit:
        return "told"
    return "not told"


@pytest.mark.parametrize("new_loop", [event_loop_thread._new_loop, asyncio.new_event_loop])
def test_a_task_that_quits_does_not_end_the_loop(
    monkeypatch: pytest.MonkeyPatch, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """`sys.exit` in a task that a handler waits for is an error of the handler; other tasks go on."""
    monkeypatch.setattr(event_loop_thread, "_new_loop", new_loop)
    loop = EventLoopThread()
    told: Future[str] = Future()
    goes_on = threading.Event()

    async def handle() -> None:
        told.set_result(await _wait_for_a_task_that_quits())

    async def handle_other() -> None:
        await asyncio.sleep(0.05)
        goes_on.set()

    try:
        for handler in (handle, handle_other):
            loop.call(lambda handler=handler: asyncio.ensure_future(handler()))  # type: ignore[misc]
        assert told.result(30) == "told"
        assert goes_on.wait(30)
    finally:
        loop.close()
    assert loop.loop.is_closed()

"""Tests of handlers in threads, without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.support.running_worker import wait_until

from klamm.core.delivery.work import Received
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.worker import Record, Retry, Worker
from klamm.worker.handler_plan import HandlerPlan
from klamm.worker.handler_runs import HandlerRuns
from klamm.worker.thread_handlers import FunctionCaller, ThreadHandlers
from klamm.worker.worker import new_clock


class Panic(BaseException):
    """An error of a library that is not written in Python."""


def wait_for_a_cancelled_task() -> None:
    """Raises CancelledError, as a coroutine that waits for a cancelled task."""

    async def wait() -> None:
        task = asyncio.ensure_future(asyncio.sleep(1))
        task.cancel()
        await task

    asyncio.run(wait())


def panic() -> None:
    """Raises an error that is no Exception."""
    raise Panic("overflow")


def handle_in_threads(declare: Callable[[Worker], Any], values: list[bytes]) -> tuple[list[bytes], list[BaseException]]:
    """Handles records. Returns the values of dead letters, and the errors that end the worker."""
    app = Worker("no-broker:9092", group="threads")
    declare(app)
    (declared,) = app.handlers
    dead: list[bytes] = []
    failures: list[BaseException] = []

    def bury(
        plan: HandlerPlan, record: Record, error: BaseException, done: Callable[[BaseException | None], None]
    ) -> None:
        dead.append(record.value)
        done(None)

    runs = HandlerRuns(declared, clock_ms=new_clock(), to_record=replace, bury=bury, stop=failures.append)
    threads = ThreadHandlers(runs, [FunctionCaller(declared.function)])
    name = TopicPartition("orders", PartitionIndex(0))
    runs.delivery.assign(name, Offset(0))
    records = [Record("orders", 0, offset, b"a", value) for offset, value in enumerate(values)]
    runs.receive(name, [Received(Offset(each.offset), each.key, 1, each) for each in records])
    runs.wake()
    try:
        wait_until(lambda: failures or runs.succeeded + runs.dead == len(values))
    finally:
        threads.close(30)
    return dead, failures


@pytest.mark.parametrize("fail", [wait_for_a_cancelled_task, panic])
def test_any_error_of_a_plain_function_is_a_failed_attempt(fail: Callable[[], None]) -> None:
    """Also an error that is no Exception: the record becomes a dead letter, and the worker goes on."""

    def declare(app: Worker) -> None:
        @app.handler("orders", retries=Retry(1), dead_letters="orders-failed")
        def bill(record: Record) -> None:
            if record.value == b"bad":
                fail()

    assert handle_in_threads(declare, [b"bad", b"good"]) == ([b"bad"], [])


@pytest.mark.parametrize("fail", [wait_for_a_cancelled_task, panic])
def test_any_error_of_a_decoder_makes_a_dead_letter(fail: Callable[[], None]) -> None:
    """Also an error that is no Exception."""

    def decode(value: bytes) -> bytes:
        if value == b"bad":
            fail()
        return value

    def declare(app: Worker) -> None:
        @app.handler("orders", decode=decode, dead_letters="orders-failed")
        def bill(record: Record) -> None:
            pass

    assert handle_in_threads(declare, [b"bad", b"good"]) == ([b"bad"], [])


class Later:
    """An object that a function returns to be awaited, and that is no coroutine: as a compiled function does."""

    def __init__(self, values: list[bytes], value: bytes) -> None:
        self._values = values
        self._value = value

    def __await__(self) -> Iterator[None]:
        yield from asyncio.sleep(0).__await__()
        self._values.append(self._value)


def test_what_a_plain_function_returns_is_awaited() -> None:
    """Also if it is no coroutine of Python's own: without that, the record would count as handled."""
    handled: list[bytes] = []

    def declare(app: Worker) -> None:
        @app.handler("orders")
        def bill(record: Record) -> Later:
            return Later(handled, record.value)

    assert handle_in_threads(declare, [b"1", b"2"]) == ([], [])
    assert handled == [b"1", b"2"]

"""Handlers whose processes start slowly if `SLOW_START_SECONDS` says so, as if their module imported a large library.
Without a broker."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Generator
from multiprocessing import current_process
from typing import Final

from klamm.worker import Record, Retry, Worker

__all__ = ["DEADLINE_SECONDS", "app"]

DEADLINE_SECONDS: Final = 5.0
"""Long enough for a process that gets no processor for some seconds."""

if current_process().name != "MainProcess":
    time.sleep(float(os.environ.get("SLOW_START_SECONDS", "0")))

app = Worker("no-broker:9092", group="pool")


@app.handler("tasks", pool=1, retries=Retry(1, deadline=DEADLINE_SECONDS), dead_letters="tasks-failed")
def work(record: Record) -> None:
    """Hangs when it is told to."""
    if record.value == b"hang":
        time.sleep(3600)


@app.handler("texts", pool=1, retries=Retry(1), decode=bytes.decode, dead_letters="texts-failed")
@app.handler("numbers", pool=1, retries=Retry(1), decode=int, dead_letters="numbers-failed")
def work_on_either(record: Record) -> None:
    """Fails with the type of the value that it gets."""
    raise TypeError(type(record.value).__name__)


@app.handler("batches", pool=1, batch=3, retries=Retry(5), decode=bytes.decode, dead_letters="batches-failed")
def work_on_batch(records: list[Record]) -> None:
    """Accepts decoded values only."""
    if not all(isinstance(record.value, str) for record in records):
        raise TypeError
    if len(records) == 1:
        raise ValueError("the record is alone")


@app.handler("cancelled", pool=1, retries=Retry(1), decode=bytes.decode, dead_letters="cancelled-failed")
def wait_for_a_cancelled_task(record: Record) -> None:
    """Raises CancelledError."""
    raise asyncio.CancelledError


class _Later:
    def __await__(self) -> Generator[None, None, None]:
        yield from asyncio.sleep(0).__await__()
        raise ValueError("later")


@app.handler("awaitables", pool=1, retries=Retry(1), dead_letters="awaitables-failed")
def return_an_awaitable(record: Record) -> _Later:
    """Fails when the result is awaited, which is no coroutine of Python's own."""
    return _Later()

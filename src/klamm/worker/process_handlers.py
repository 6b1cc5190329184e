"""Runs a handler in another process. The process is spawned, gets records as plain values, and answers each of them.

A process that dies, or that is killed because its record's deadline is over, is a failed attempt; another process takes
its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from klamm.worker.errors import WorkerError

__all__ = ["HandlerProcess", "ProcessFailure", "serve_records"]


class ProcessFailure(WorkerError):
    """A handler failed in its process, or the process died."""


class HandlerProcess:
    """One process of a handler's pool. One thread uses it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._is_closed = False
        self._start()

    def _start(self) -> None:
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=serve_records, args=(theirs, self._function), daemon=True)
        self._process.start()
        theirs.close()

    def __call__(self, argument: Any, seconds: float | None) -> None:
        """Runs the handler in the process. Raises ProcessFailure."""
        try:
            self._connection.send(argument)
            if seconds is not None and not self._connection.poll(max(0.0, seconds)):
                self._restart()
                raise ProcessFailure("the deadline is over; the process was killed")
            problem = self._connection.recv()
        except (EOFError, OSError):
            code = self._restart()
            raise ProcessFailure(f"the process died with exit code {code}") from None
        if problem is not None:
            raise ProcessFailure(problem)

    def _restart(self) -> int | None:
        self._process.join(0.1)
        self._process.kill()
        self._process.join()
        code = self._process.exitcode
        self._connection.close()
        if not self._is_closed:
            self._start()
        return code

    def close(self) -> None:
        """Ends the process."""
        self._is_closed = True
        self._connection.close()
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def serve_records(connection: Connection, function: Callable[..., Any]) -> None:
    """Handles records until the connection ends. This is what the process runs.

    The worker decides when the process ends, so it ignores the signals that end the worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    decode = function.__klamm_plan__.decode  # type: ignore[attr-defined]
    with contextlib.suppress(EOFError, OSError), asyncio.Runner() as runner:
        while True:
            connection.send(_problem_of(runner, function, decode, connection.recv()))


def _problem_of(
    runner: asyncio.Runner, function: Callable[..., Any], decode: Callable[[Any], Any] | None, argument: Any
) -> str | None:
    try:
        if decode is not None:
            for record in argument if isinstance(argument, list) else [argument]:
                record.value = decode(record.value)
        result = function(argument)
        if inspect.iscoroutine(result):
            runner.run(result)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None

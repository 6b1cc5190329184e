"""Runs a handler in another process. The process is spawned, gets records as plain values, and answers each of them.

A process that dies, or that is killed because its record's deadline is over, is a failed attempt; another process takes
its place. The process says when it has imported the handler's module and is ready. A record is taken only then, so the
start of a process is not part of a record's deadline. A process that dies before it is ready is no attempt of a record:
after some of them the worker ends, because the next records would fare no better.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import inspect
import logging
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple, TypeAlias

from klamm.worker.errors import ProcessFailure, ProcessNotReady, UndecodableRecords
from klamm.worker.handler_plan import HandlerPlan, wait_for_result

__all__ = ["HandlerProcess", "note_plan", "serve_records"]

_logger = logging.getLogger(__name__)

_PLANS: Final = "__klamm_plans__"
_RESTARTS: Final = 3
"""How many times in a row a process is started again that has died before it was ready."""


class _Failed(NamedTuple):
    """The answer of a process whose handler failed."""

    text: str


class _Undecodable(NamedTuple):
    """The answer of a process that could not decode the values at these places of a run."""

    text: str
    positions: tuple[int, ...]


_Answer: TypeAlias = _Failed | _Undecodable | None
"""The answer to a run; None if it succeeded. A process that is ready sends None too."""


class HandlerProcess:
    """One process of a handler's pool. One thread uses it."""

    def __init__(self, plan: HandlerPlan) -> None:
        self._plan = plan
        self._is_closed = False
        self._is_ready = False
        self._start()
        # The process ignores the signal with which multiprocessing ends it if the program ends before `close`.
        atexit.register(self.close)

    def _start(self) -> None:
        self._is_ready = False
        if self._is_closed:
            return
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=serve_records, args=(theirs, self._plan.function, self._plan.topics), daemon=True
        )
        try:
            self._process.start()
        except OSError as error:  # no memory, for example: this counts as a process that dies before it is ready
            _logger.warning("a process of %s can't be started: %s", self._plan.name, error)
        finally:
            theirs.close()

    def wait_until_ready(self) -> None:
        """Waits until the process has started. Raises ProcessNotReady if it dies meanwhile, several times in a row."""
        deaths = 0
        while not self._is_ready and not self._is_closed:
            try:
                self._connection.recv()
                self._is_ready = True
            except (EOFError, OSError):
                code = self._end()
                deaths += 1
                if deaths <= _RESTARTS:
                    self._start()
                elif not self._is_closed:
                    raise ProcessNotReady(
                        f"a process of {self._plan.name} has ended before it was ready, {deaths} times in a row, with "
                        f"exit code {code}. Its error is on standard error. Can the module of the handler be imported, "
                        'and is app.run() below `if __name__ == "__main__":`?'
                    ) from None

    def __call__(self, argument: Any, seconds: float | None) -> None:
        """Runs the handler in the process. Raises ProcessFailure, and ProcessNotReady."""
        self.wait_until_ready()
        try:
            self._send(argument)
            if seconds is not None and not self._connection.poll(max(0.0, seconds)):
                self._restart()
                raise ProcessFailure("the deadline is over; the process was killed")
            answer: _Answer = self._connection.recv()
        except (EOFError, OSError):
            code = self._restart()
            raise ProcessFailure(f"the process died with exit code {code}") from None
        if isinstance(answer, _Undecodable):
            raise UndecodableRecords(*answer)
        if answer is not None:
            raise ProcessFailure(answer.text)

    def _send(self, argument: Any) -> None:
        """Sends records to the process, or to another one if the process has died since its last records."""
        try:
            self._connection.send(argument)
        except OSError:
            self._restart()
            self.wait_until_ready()
            self._connection.send(argument)

    def _restart(self) -> int | None:
        """Ends the process and starts another one. Returns the exit code."""
        code = self._end()
        self._start()
        return code

    def _end(self) -> int | None:
        if self._process.pid is not None:
            self._process.join(0.1)
            self._process.kill()
            self._process.join()
        self._connection.close()
        return self._process.exitcode

    def close(self) -> None:
        """Ends the process."""
        atexit.unregister(self.close)
        self._is_closed = True
        self._connection.close()
        if self._process.pid is None:
            return
        self._process.join(1)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def note_plan(plan: HandlerPlan) -> None:
    """Leaves the plan at its function, where the processes of its pool find it. A function may have several plans."""
    plans: dict[tuple[str, ...], HandlerPlan] = plan.function.__dict__.setdefault(_PLANS, {})
    plans[plan.topics] = plan


def serve_records(connection: Connection, function: Callable[..., Any], topics: tuple[str, ...]) -> None:
    """Handles records of these topics until the connection ends. This is what the process runs.

    The worker decides when the process ends, so it ignores the signals that end the worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    plan: HandlerPlan = function.__dict__[_PLANS][topics]
    decode = plan.decode
    with contextlib.suppress(EOFError, OSError), asyncio.Runner() as runner:
        connection.send(None)  # ready
        while True:
            connection.send(_answer(runner, function, decode, connection.recv()))


def _answer(
    runner: asyncio.Runner, function: Callable[..., Any], decode: Callable[[Any], Any] | None, argument: Any
) -> _Answer:
    if decode is not None:
        bad, text = [], ""
        for position, record in enumerate(argument if isinstance(argument, list) else [argument]):
            try:
                record.value = decode(record.value)
            except (Exception, asyncio.CancelledError) as error:
                bad.append(position)
                text = _text_of(error)
        if bad:
            return _Undecodable(text, tuple(bad))
    try:
        result = function(argument)
        if result is not None and inspect.isawaitable(result):
            runner.run(wait_for_result(result))
    except (Exception, asyncio.CancelledError) as error:
        return _Failed(_text_of(error))
    return None


def _text_of(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"

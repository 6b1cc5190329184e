"""Keeps the unit tests free of sockets, processes and sleeps, so that they are fast and never fail by chance.

A socket pair is allowed, because an event loop uses one to wake itself.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from collections.abc import Generator
from typing import Any, Final, SupportsIndex

import pytest

from klamm.worker.simulated_loop import SimulatedLoop

_PROCESSES: Final = frozenset(
    {"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn"}
)
_NETWORK: Final = frozenset({"socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname"})
_WHERE: Final = "a test that needs this belongs to tests/integration; time is an argument (CONTRIBUTING.md, Tests)"


class NotAUnitTest(AssertionError):
    """The error for a unit test that opened a socket, started a process, or waited for a time to be over."""


class _Guard:
    """Refuses forbidden actions of a unit test in the threads of that test.

    Threads that started before the test are not checked, because a broker of an integration test may still run in
    them.
    """

    def __init__(self) -> None:
        self._is_on = False
        self._others: frozenset[int] = frozenset()
        self._breaches: list[str] = []

    def start(self) -> None:
        """Begins to check this thread and all threads that start later."""
        here = threading.get_ident()
        self._others = frozenset(thread.ident or 0 for thread in threading.enumerate()) - {here}
        self._breaches.clear()
        self._is_on = True

    def stop(self) -> None:
        """Allows everything again."""
        self._is_on = False

    def check(self) -> None:
        """Raises NotAUnitTest if an action was refused, even if the code under test caught the error."""
        if self._breaches:
            raise NotAUnitTest(f"{', '.join(dict.fromkeys(self._breaches))}: {_WHERE}")

    def refuse(self, what: str) -> None:
        """Raises NotAUnitTest if a unit test runs in this thread."""
        if self._is_on and threading.get_ident() not in self._others:
            self._breaches.append(what)
            raise NotAUnitTest(f"{what}: {_WHERE}")

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Checks an audit event of the interpreter."""
        if event in _PROCESSES:
            self.refuse("this starts a process")
        elif event in _NETWORK or (event == "socket.__new__" and arguments[1] != socket.AF_UNIX):
            self.refuse("this opens a socket")


_GUARD: Final = _Guard()
_sleep, _sleep_in_loop, _wait = time.sleep, asyncio.sleep, threading.Condition.wait


def _guarded_sleep(seconds: float | SupportsIndex) -> None:
    if seconds != 0:
        _GUARD.refuse("this sleeps")
    _sleep(seconds)


async def _guarded_sleep_in_loop(delay: float, result: Any = None) -> Any:
    if delay > 0 and not isinstance(asyncio.get_running_loop(), SimulatedLoop):  # whose time is simulated
        _GUARD.refuse("this sleeps")
    return await _sleep_in_loop(delay, result)


def _guarded_wait(condition: threading.Condition, timeout: float | None = None) -> bool:
    """Refuses a wait whose time runs out: it is a sleep. A limit that is not reached costs no time.

    The waits of events, queues and futures come here, too.
    """
    was_notified = _wait(condition, timeout)
    if not was_notified and timeout is not None and timeout > 0:
        _GUARD.refuse("this waits until a time is over")
    return was_notified


sys.addaudithook(_GUARD.hear)
threading.Condition.wait = _guarded_wait  # type: ignore[assignment, method-assign]  # as long as this process runs unit tests
time.sleep = _guarded_sleep
asyncio.sleep = _guarded_sleep_in_loop


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """Checks the fixtures of a unit test like the test itself.

    The teardown of fixtures is not checked: after the last test of a process, pytest also ends fixtures of other
    suites.
    """
    _GUARD.start()
    try:
        return (yield)
    except BaseException:
        _GUARD.stop()
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Fails the test if the code under test caught a NotAUnitTest error."""
    try:
        result = yield
    finally:
        _GUARD.stop()
    _GUARD.check()
    return result


@pytest.fixture(autouse=True)
def _no_session_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the session that a Spark test left in this process: functions like `udf` ask it for its settings."""
    sessions = sys.modules.get("pyspark.sql.session")
    if sessions is not None:
        monkeypatch.setattr(sessions.SparkSession, "_instantiatedSession", None)

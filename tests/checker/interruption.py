"""Ends a run on Ctrl-C and SIGTERM, at the next look for it.

Handlers of signals that raise an exception are not safe here: an exception in the middle of `Popen.poll()` leaves the
lock of that process taken, so that `Popen.wait()` never returns; one in the middle of `Popen()` loses a process.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["Interrupted", "Interruption"]

_LOOK_S: Final = 0.1


class Interrupted(Exception):
    """A signal has ended the run."""

    def __str__(self) -> str:
        return "it was interrupted"


class Interruption:
    """Takes the signals that end a run."""

    def __init__(self) -> None:
        self.has_come = False
        """Whether a signal has come."""

    @contextmanager
    def expected(self) -> Iterator[None]:
        """Takes Ctrl-C and SIGTERM while the context is open, even if the parent process ignored them.

        Has no effect in another thread than the first.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._come) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _come(self, *_: object) -> None:
        self.has_come = True

    def look(self) -> None:
        """Raises Interrupted if a signal has come."""
        if self.has_come:
            raise Interrupted

    def sleep(self, seconds: float) -> None:
        """Sleeps. Raises Interrupted soon after a signal."""
        end = time.monotonic() + seconds
        self.look()
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_S))
            self.look()

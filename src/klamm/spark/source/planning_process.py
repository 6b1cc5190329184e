"""The process in which Spark plans a query, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Final, TypeVar, cast

if TYPE_CHECKING:
    from types import FunctionType

__all__ = ["Caller", "end_in_order", "is_the_end"]

F = TypeVar("F", bound=Callable[..., object])

_HIGHEST_DESCRIPTOR: Final = 256
_ends: Final[set[CodeType]] = set()


class Caller:
    """Spark's JVM, at the other end of the socket over which it calls this process.

    A query may be stopped before Spark knows its sources, while one of them waits for its group. Spark then sends no
    SIGTERM, and only the closed socket shows the stop.
    """

    def __init__(self) -> None:
        """Duplicates all open sockets as those of the JVM, so create it before this process opens other connections."""
        self._sockets = [
            socket.socket(fileno=os.dup(number)) for number in range(3, _HIGHEST_DESCRIPTOR) if _is_socket(number)
        ]

    def has_hung_up(self) -> bool:
        """Returns whether the JVM has closed a socket."""
        for each in self._sockets:
            with contextlib.suppress(BlockingIOError):
                try:
                    if each.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                        return True
                except ConnectionError:
                    return True
        return False

    def close(self) -> None:
        """Closes the duplicated sockets; the originals stay open."""
        for each in self._sockets:
            each.close()
        self._sockets.clear()


def _is_socket(number: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False


def end_in_order() -> None:
    """Installs a SIGTERM handler, so that the end of the process by Spark runs the reader's `stop()`.

    Spark sends SIGTERM twice and hangs up; the first of the three starts `stop()`, and the others must not interrupt
    it. Has an effect only in the main thread, since Python handles signals only there.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end)


def is_the_end(function: F) -> F:
    """Marks a function that runs at the end of the process: SIGTERM does not interrupt it."""
    _ends.add(cast("FunctionType", function).__code__)
    return function


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # The frames show a marked function even before its first line has run.
    while frame is not None:
        if frame.f_code in _ends:
            return
        frame = frame.f_back
    sys.exit(128 + number)

"""The process in which Spark plans a query, and how it ends."""

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

    A query that is stopped before Spark knows its sources (while one of them is waiting for its group) has none to end:
    it gets no SIGTERM, and only the socket tells.
    """

    def __init__(self) -> None:
        """To be made before this process connects to anything else: every socket that is open counts as the JVM's."""
        self._sockets = [
            socket.socket(fileno=os.dup(number)) for number in range(3, _HIGHEST_DESCRIPTOR) if _is_socket(number)
        ]

    def has_hung_up(self) -> bool:
        """Whether nobody waits for an answer any more."""
        for each in self._sockets:
            with contextlib.suppress(BlockingIOError):
                try:
                    if each.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"":
                        return True
                except ConnectionError:
                    return True
        return False

    def close(self) -> None:
        """Lets go of the sockets; their owners keep theirs."""
        for each in self._sockets:
            each.close()
        self._sockets.clear()


def _is_socket(number: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return False


def end_in_order() -> None:
    """Has SIGTERM, with which Spark ends the process, run `stop()` of the reader instead of killing it at once.

    Spark sends it twice and hangs up: what the first of the three began must not be interrupted by another. Counts from
    the first call on, and only in the main thread, where Python lets signals be handled.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end)


def is_the_end(function: F) -> F:
    """Marks a function that is called because the process ends: SIGTERM does not break it off, whenever it comes."""
    _ends.add(cast("FunctionType", function).__code__)
    return function


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Also before the first line of such a function has run, so it could not say so by itself.
    while frame is not None:
        if frame.f_code in _ends:
            return
        frame = frame.f_back
    sys.exit(128 + number)

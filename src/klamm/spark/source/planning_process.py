"""The process in which Spark plans a query, and how it ends."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType

__all__ = ["end_in_order"]


def end_in_order() -> None:
    """Has SIGTERM, with which Spark ends the process, run `stop()` of the reader instead of killing it at once.

    Spark sends it twice, and the second must not interrupt what the first began. Counts from the first call on, and
    only in the main thread, where Python lets signals be handled.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + number)

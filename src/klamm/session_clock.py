"""The clock for sessions with a timeout: it also counts the time for which this machine is suspended.

The other side of a session goes on meanwhile, and ends the session. Linux's monotonic clock stands still then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

__all__ = ["session_time"]


def _monotonic_with_suspend() -> Callable[[], float]:
    """Returns the monotonic clock that continues while the machine is suspended, if there is one."""
    clock_id = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic if clock_id is None else partial(time.clock_gettime, clock_id)


session_time: Final = _monotonic_with_suspend()
"""Returns the seconds since an arbitrary moment. Only two values of this clock can be compared."""

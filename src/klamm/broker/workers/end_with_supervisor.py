"""Lets a worker end when its supervisor dies, also while the worker is still starting or can't stop."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from typing import Final

__all__ = ["end_soon", "signal_when_supervisor_dies"]

_PR_SET_PDEATHSIG: Final = 1  # <sys/prctl.h>
_STOP_S: Final = 10.0
"""How long a worker without a supervisor may take to stop."""


def signal_when_supervisor_dies(supervisor: int) -> None:
    """Lets the kernel send SIGTERM to this process when its parent, the process `supervisor`, dies.

    Only Linux can do this. Elsewhere the worker notices that its connection to the supervisor has ended.
    """
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != supervisor:  # it died before the call
        os.kill(os.getpid(), signal.SIGTERM)


def end_soon() -> None:
    """Kills this process in some seconds, unless it has ended: a new supervisor may be waiting for its folder."""
    timer = threading.Timer(_STOP_S, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    timer.start()

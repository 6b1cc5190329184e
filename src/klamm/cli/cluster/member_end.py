"""The end of members: a signal to stop, a time limit, and a kill after it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from klamm.cli.cluster.cluster_record import ClusterProblem, Member
from klamm.insight.words import enumeration

__all__ = ["end_members"]

_LOOK_INTERVAL_S: Final = 0.05
_KILL_TIMEOUT_S: Final = 10.0


def end_members(members: Iterable[Member], timeout_s: float, warn: Callable[[str], None]) -> None:
    """Stops all members at once and returns when their processes have ended.

    A member that does not end in time is killed: `warn` gets a sentence that says so. Raises ClusterProblem for a
    process that no signal ends, or that belongs to another user.
    """
    running = [member for member in members if member.is_running]
    _send(running, signal.SIGTERM)
    left = _wait(running, timeout_s)
    if left:
        warn(f"{_names(left)} did not stop within {timeout_s:g} s: killed")
        _send(left, signal.SIGKILL)
        left = _wait(left, _KILL_TIMEOUT_S)
    if left:
        raise ClusterProblem(f"{_names(left)} can't be killed: the process waits for the system, perhaps for a disk")


def _send(members: Iterable[Member], number: signal.Signals) -> None:
    for member in members:
        assert member.process is not None
        try:
            member.process.send(number)
        except PermissionError:
            raise ClusterProblem(f"{_names([member])} belongs to another user, who has to stop the cluster") from None


def _wait(members: Sequence[Member], timeout_s: float) -> list[Member]:
    """Returns the members that still run after the time."""
    deadline = time.monotonic() + timeout_s
    while left := [member for member in members if member.is_running]:
        if time.monotonic() >= deadline:
            break
        time.sleep(_LOOK_INTERVAL_S)
    return left


def _names(members: Sequence[Member]) -> str:
    return enumeration([f"{member.name} (process {member.process.pid})" for member in members if member.process])

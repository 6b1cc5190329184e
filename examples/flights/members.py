"""The queue's three members: processes that can be started, killed and stopped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

__all__ = ["MEMBER_NAMES", "Members"]

MEMBER_NAMES: Final = ("member-1", "member-2", "member-3")
STOP_TIMEOUT_S: Final = 10.0


class Members:
    """The member processes, which note in files in `folder` what they handle.

    Leaving the context stops those that are left.
    """

    def __init__(self, bootstrap_servers: str, topic: str, group: str, folder: Path) -> None:
        self._folder = folder
        self._arguments = (bootstrap_servers, topic, group)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._folder.mkdir()
        for name in MEMBER_NAMES:
            command = [sys.executable, "-m", "examples.flights.member", *self._arguments, name, str(self._folder)]
            # In a session of its own, Ctrl-C does not reach it: the demo ends it.
            self._processes[name] = subprocess.Popen(command, start_new_session=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kill(self, name: str) -> None:
        """Ends a member the hard way (SIGKILL): it can't say that it leaves."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

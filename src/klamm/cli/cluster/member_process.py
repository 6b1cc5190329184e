"""Processes that outlive the command that starts them, and are found again by a later one.

A process id alone does not name a process: after its end, and after a restart of the machine, the system gives the id
to another one. The id together with the start time does.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ProcessIdentity", "identify", "spawn", "tail"]

_PROC: Final = Path("/proc")
_BOOT_ID: Final = _PROC / "sys/kernel/random/boot_id"
_TAIL_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process, told apart from all others that have had its id."""

    pid: int
    start: str
    """When it started: the boot and the kernel's ticks since then, or the text of `ps` where there is no /proc."""

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended. A zombie has: only its parent has not noticed."""
        return _start_of(self.pid) == self.start

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, unless the process has ended. Raises PermissionError for the process of another user."""
        if self.is_running:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


def spawn(command: Sequence[str], log_file: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts a process in a session of its own, which a closed terminal and Ctrl-C do not reach.

    Its output is appended to `log_file`. Raises OSError.
    """
    with log_file.open("ab") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )


def identify(pid: int) -> ProcessIdentity:
    """Returns the identity of a process that this process has started and not waited for. It may have ended."""
    return ProcessIdentity(pid, _start_of(pid) or "ended")


def tail(log_file: Path, begin: int, lines: int) -> str:
    """Returns the last lines of what was written behind the position `begin`; an empty text if there is nothing."""
    try:
        with log_file.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(begin, size - _TAIL_BYTES))
            text = stream.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def _start_of(pid: int) -> str | None:
    """Returns when the process with that id started; None if none runs."""
    if not _BOOT_ID.exists():
        return _start_by_ps(pid)
    try:
        fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, ticks = fields[0], fields[19]
    return None if state in "ZX" else f"{_BOOT_ID.read_text(encoding='ascii').strip()} {ticks}"


def _start_by_ps(pid: int) -> str | None:
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}  # the text must not depend on who asks
    command = ["ps", "-o", "stat=,lstart=", "-p", str(pid)]
    state, _, start = (
        subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        .stdout.strip()
        .partition(" ")
    )
    return None if not start or state.startswith("Z") else start.strip()

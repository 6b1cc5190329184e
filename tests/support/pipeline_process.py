"""A `klamm pipeline` command in a process of its own, which can be killed with its JVM, or without it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["PipelineProcess"]

_ROOT: Final = Path(__file__).resolve().parents[2]


class PipelineProcess:
    """The process of a command, which leads a process group. Its output is appended to `run.log` in `folder`."""

    def __init__(self, folder: Path, words: Sequence[str], environment: dict[str, str] | None = None) -> None:
        self.log: Final = folder / "run.log"
        paths = os.pathsep.join(filter(None, [str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "klamm.cli", "pipeline", *words],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": paths, **(environment or {})},
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The id of the process and of its group."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the Python process lives."""
        return self._process.poll() is None

    def text(self) -> str:
        """Returns the end of the log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-5000:]

    def wait(self, patience_s: float) -> int:
        """Returns the status of the command when it has ended."""
        return self._process.wait(patience_s)

    def send_signal(self, number: int) -> None:
        """Sends a signal to the Python process alone."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kills the whole group: Python, JVM and workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def kill_python(self) -> None:
        """Kills the Python process; the JVM has to end itself."""
        self._process.kill()
        self._process.wait()

    def kill_jvm(self) -> None:
        """Kills the JVM alone, as the kernel does for lack of memory."""
        for pid in self.jvms():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def jvms(self) -> list[int]:
        """Returns the JVMs of the group."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                name, _, fields = stat.read_text(encoding="utf-8").rpartition(")")
                # A zombie has ended.
                if name.endswith("(java") and int(fields.split()[2]) == self.pid and fields.split()[0] != "Z":
                    found.append(int(stat.parent.name))
        return found

"""Several workers as a user starts them: `klamm serve --workers`, with a free port for each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

__all__ = ["Workers"]

_KLAMM: Final = str(Path(sys.executable).with_name("klamm"))
_STOP_S: Final = 60


class Workers:
    """A supervisor with its workers, and the clients of a test."""

    def __init__(
        self,
        folder: Path,
        *words: str,
        listen: str = "127.0.0.1:0",
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Starts the command with data and log in `folder`. With an empty `listen`, `words` say where it listens."""
        environ = {name: text for name, text in os.environ.items() if not name.startswith("KLAMM_")} | dict(environment)
        self.data = folder / "data"
        self.log = folder / "log"
        command = [_KLAMM, "serve", "--data-dir", str(self.data), "--profile", "test"]
        command += ["--listen", listen] if listen else []
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [*command, *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environ,
            )

    def ready(self, workers: int) -> str:
        """Waits for the ready lines, and returns the addresses."""
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in range(workers)]
        assert all(line.startswith("ready ") for line in lines), self.log.read_text()
        return ",".join(line.split()[1] for line in lines)

    def children(self) -> dict[int, int]:
        """Returns the process ids of the workers, by number."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().decode().split("\0")
                parent = int(path.with_name("stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent == self.process.pid and "--worker" in words:
                found[int(words[words.index("--worker") + 1])] = int(path.parent.name)
        return found

    def stop(self) -> int:
        """Stops all workers with SIGTERM, and returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(_STOP_S)
        assert self.process.stdout is not None
        self.process.stdout.close()
        assert "Traceback" not in self.log.read_text(), self.log.read_text()
        return status

    def kill(self, worker: int) -> None:
        """Kills one worker; the supervisor starts it again."""
        os.kill(self.children()[worker], signal.SIGKILL)

    def kill_all(self) -> None:
        """Kills the supervisor and all workers at once, so that none can react to the end of another."""
        self.process.send_signal(signal.SIGSTOP)
        for child in self.children().values():
            os.kill(child, signal.SIGKILL)
        self.end()

    def end(self) -> None:
        """Kills the supervisor, if it is still running."""
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

"""The pipeline's driver: `klamm pipeline run` as a process of its own, which can be killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

__all__ = ["FLOWS", "PIPELINE_FILE", "Driver"]

PIPELINE_FILE: Final = Path(__file__).with_name("pipeline.py")
FLOWS: Final = ("delays", "arrivals")
STOP_TIMEOUT_S: Final = 60.0


class Driver:
    """The process and the lines of JSON that it prints, one for each micro-batch.

    Checkpoints, files and its messages are in `folder`. Leaving the context kills the process.
    """

    def __init__(self, bootstrap_servers: str, folder: Path) -> None:
        self.folder: Final = folder
        self.messages: Final = folder / "pipeline.log"
        self.latest: dict[str, dict[str, Any]] = {}
        """The last finished micro-batch of each flow, since the last start."""
        self.first: dict[str, dict[str, Any]] = {}
        """The first one."""
        self.bad_records: Counter[str] = Counter()
        """By flow, in all runs."""
        self._command = [
            str(Path(sys.executable).with_name("klamm")),
            *("pipeline", "run", str(PIPELINE_FILE), "-b", bootstrap_servers, "--json", "--master", "local[2]"),
        ]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Starts the process, or starts it again: it goes on from its checkpoints."""
        self.first, self.latest = {}, {}
        with self.messages.open("ab") as messages:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=messages,
                text=True,
                start_new_session=True,  # Ctrl-C reaches only the demo, which then kills this process with its JVM
            )
        threading.Thread(target=self._read, args=(self._process.stdout, self.first, self.latest), daemon=True).start()

    @property
    def exit_status(self) -> int | None:
        """The status with which the process has ended; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def is_running(self) -> bool:
        """Whether all flows run, as their status files say."""
        return all(self._state(flow) == "running" for flow in FLOWS)

    def kill(self) -> None:
        """Ends the process, its JVM and its Python workers by SIGKILL."""
        if self._process is not None and self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self) -> int:
        """Ends the process after its micro-batches by SIGTERM, and returns its status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(STOP_TIMEOUT_S)

    def _state(self, flow: str) -> str | None:
        file = self.folder / "klamm-pipelines" / "_" / "flights" / flow / "status.json"
        try:
            status = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        assert self._process is not None
        is_ours = status["runner"]["pid"] == self._process.pid
        return str(status["state"]) if is_ours else None

    def _read(self, lines: IO[str] | None, first: dict[str, dict[str, Any]], latest: dict[str, dict[str, Any]]) -> None:
        assert lines is not None
        with lines:
            for line in lines:
                try:
                    report = json.loads(line)
                except ValueError:
                    continue  # the process was killed while it wrote the line
                if report["query"] == "flow":
                    flow = report["flow"]
                    first.setdefault(flow, report)
                    latest[flow] = report
                    self.bad_records[flow] += report["bad_records"]

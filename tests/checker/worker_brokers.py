"""The workers of `klamm serve --workers` for a run of the checker, with a proxy on every link between them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.support.links import Links
from tests.support.patience import Limit
from tests.support.workers import Workers

__all__ = ["WorkerBrokers"]

_PATIENCE_S: Final = 60


class WorkerBrokers:
    """Workers that keep their addresses, which are those of the proxies, over all starts."""

    def __init__(self, folder: Path, config: Mapping[str, str], count: int) -> None:
        """Starts them with their data in `folder`."""
        self.numbers = range(1, count + 1)
        self.links = Links(count)
        self.links.__enter__()
        self._folder = folder
        self.log_file = folder / "log"
        settings = dict(config) | {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.links.port}"}
        self._words = ["--workers", str(count), "-v"]
        for key, value in settings.items():
            self._words += ["-X", f"{key}={value}"]
        self._workers: Workers | None = None
        self._ports: dict[int, int] = {}
        self.bootstrap_servers = ""
        self.start()

    @property
    def is_running(self) -> bool:
        """Whether the supervisor is running."""
        return self._workers is not None and self._workers.process.poll() is None

    def start(self) -> None:
        """Starts the command, and waits until all workers serve."""
        self._workers = Workers(self._folder, *self._words)
        addresses = self._workers.ready(len(self.numbers))
        self._ports = {number: int(each.split(":")[1]) for number, each in enumerate(addresses.split(","), 1)}
        self.bootstrap_servers = self.links.lead_to(addresses)

    def stop(self) -> None:
        """Stops all workers with SIGTERM. Raises RuntimeError if they don't end with status 0."""
        assert self._workers is not None
        process = self._workers.process
        process.send_signal(signal.SIGTERM)
        try:
            status = process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            status = None
        self._workers.end()
        self._workers = None
        if status != 0:
            raise RuntimeError(f"klamm serve has ended with status {status}:\n{self.log()[-4000:]}")

    def close(self) -> None:
        """Ends what still runs, and the proxies."""
        if self._workers is not None:
            self._workers.end()
        self.links.__exit__(None, None, None)

    def kill_supervisor(self) -> None:
        """Kills the supervisor with kill -9, and waits until its workers have stopped by themselves."""
        assert self._workers is not None
        workers, self._workers = self._workers, None
        processes = workers.children().values()
        workers.end()
        self._wait(lambda: not any(Path(f"/proc/{process}").exists() for process in processes))

    def kill(self, *numbers: int) -> None:
        """Kills workers with kill -9, and waits until the supervisor has started them again and they serve."""
        assert self._workers is not None
        before = self._workers.children()
        for number in numbers:
            os.kill(before[number], signal.SIGKILL)
        self._wait(lambda: all(self._is_back(number, before[number]) for number in numbers))

    def pause(self, number: int, seconds: float) -> None:
        """Stops a worker with SIGSTOP for some seconds."""
        assert self._workers is not None
        process = self._workers.children()[number]
        os.kill(process, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(process, signal.SIGCONT)

    def log(self) -> str:
        """Returns what supervisor and workers have logged, over all starts."""
        return self.log_file.read_text(encoding="utf-8")

    def _is_back(self, number: int, process: int) -> bool:
        assert self._workers is not None
        if self._workers.children().get(number, process) == process:
            return False
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._ports[number])) == 0

    def _wait(self, is_true: Callable[[], bool]) -> None:
        limit = Limit(_PATIENCE_S)
        while not is_true():
            if limit.is_over:
                raise RuntimeError(f"klamm serve did not come to a state:\n{self.log()[-4000:]}")
            time.sleep(0.02)

"""A klamm broker as a process, the way a user runs it: `klamm serve`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.patience import Limit
from tests.support.ports import free_port

__all__ = ["BrokerProcess", "ExternalBroker"]

_READY_SECONDS = 120
"""A machine that has better to do may give a process hardly any time."""
_STOP_SECONDS = 30


class BrokerProcess:
    """`klamm serve` with its data in `folder`, or in `data_directory`; it keeps its port and its data over restarts.

    `config` are Kafka's broker keys; `environment` is added to this process's. What it logs goes to
    `folder`/broker.log. `program` is a command line that runs klamm in a way of its own;
    `options` follow the other arguments of `klamm serve`.
    """

    can_restart = True

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        *,
        data_directory: Path | None = None,
        program: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> None:
        self.data_directory = data_directory if data_directory is not None else folder / "data"
        self._log = folder / "broker.log"
        self._config = folder / "server.properties"
        self._config.write_text("".join(f"{key}={value}\n" for key, value in config.items()), encoding="utf-8")
        self._process: subprocess.Popen[str] | None = None
        self._environment = dict(environment or {})
        self._options = list(options)
        self._program = list(program) or [str(Path(sys.executable).with_name("klamm"))]
        self.bootstrap_servers = f"127.0.0.1:{free_port()}"
        self.start()

    @property
    def pid(self) -> int:
        """The process's id. Raises RuntimeError when it isn't running."""
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Starts it and waits until it says that it is ready. Raises RuntimeError with its log when it doesn't."""
        command = [*self._program, "serve", "--listen", self.bootstrap_servers]
        command += ["--data-dir", str(self.data_directory), "--config", str(self._config), *self._options]
        with self._log.open("a", encoding="utf-8") as log:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("KLAMM_")}
            environment |= self._environment
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        assert process.stdout is not None
        # A broker that hangs would leave readline() waiting for good.
        watchdog = threading.Timer(_READY_SECONDS, process.kill)
        watchdog.start()
        ready = process.stdout.readline()
        watchdog.cancel()
        process.stdout.close()
        if not ready.startswith("ready "):
            process.kill()
            process.wait()
            raise RuntimeError(f"klamm serve did not become ready:\n{self.log()[-4000:]}")
        self._process = process
        self.bootstrap_servers = ready.split()[1]

    def stop(self) -> None:
        """Stops it the polite way, with SIGTERM."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it as a crash would, with SIGKILL: nothing is flushed, closed or handed over."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stops it and starts it again on the same port and data."""
        self.stop()
        self.start()

    def log(self) -> str:
        """All it has logged so far, over all starts."""
        return self._log.read_text(encoding="utf-8")

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        limit = Limit(_STOP_SECONDS)
        try:
            while self._process.poll() is None:
                try:
                    self._process.wait(timeout=limit.left_s)
                except subprocess.TimeoutExpired:
                    if limit.is_over:
                        self._process.kill()
                        self._process.wait()
                        raise
        finally:
            self._process = None


class ExternalBroker:
    """A broker that somebody else runs, to try the tests themselves against Apache Kafka. It can't be restarted."""

    can_restart = False
    is_running = True

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def log(self) -> str:
        """Nothing is known of its log."""
        return ""

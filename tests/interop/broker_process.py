"""Runs a klamm broker as a process, in the way a user starts it: `klamm serve`."""

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
"""Long enough for a busy machine that gives the process little processor time."""
_STOP_SECONDS = 30


class BrokerProcess:
    """A `klamm serve` process with its data in `folder`, or in `data_directory`; port and data survive restarts.

    `config` contains Kafka's broker keys; `environment` is added to the environment of this process. The broker logs to
    `folder`/broker.log. `program` is the command line that starts klamm, by default the installed `klamm`; a test may
    change it between two starts. `options` follow the other arguments of `klamm serve`.
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
        self.program: Sequence[str] = program or [str(Path(sys.executable).with_name("klamm"))]
        self.bootstrap_servers = f"127.0.0.1:{free_port()}"
        self.start()

    @property
    def pid(self) -> int:
        """The id of the process. Raises RuntimeError when the process isn't running."""
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_status(self) -> int | None:
        """The exit status of a process that has ended by itself; None while it runs."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Starts the process and waits until it reports that it is ready. Raises RuntimeError with its log
        otherwise."""
        command = [*self.program, "serve", "--listen", self.bootstrap_servers]
        command += ["--data-dir", str(self.data_directory), "--config", str(self._config), *self._options]
        with self._log.open("a", encoding="utf-8") as log:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("KLAMM_")}
            environment |= self._environment
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        assert process.stdout is not None
        # The timer ends a broker that hangs, because readline() has no timeout.
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
        """Stops the process cleanly, with SIGTERM."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process like a crash, with SIGKILL: the broker flushes, closes and hands over nothing."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stops the process and starts it again on the same port and data."""
        self.stop()
        self.start()

    def log(self) -> str:
        """Returns everything that the broker has logged, over all starts."""
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
    """A broker that runs outside the tests and can't be restarted, for example Apache Kafka to check the tests
    themselves."""

    can_restart = False
    is_running = True

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def log(self) -> str:
        """Returns an empty text: the log of an external broker is not known."""
        return ""

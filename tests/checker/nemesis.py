"""Injects faults: kill -9 and restart of the broker, also twice in a row; short and long pauses; kill -9 of clients.

With a `Power`, each kill of the broker is also a power cut, which takes unsynced data.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from random import Random

from tests.checker.history import Fault, PowerCut, Recorder
from tests.checker.power import Power
from tests.checker.workload.roles import PARTITIONS, partitions_of
from tests.checker.workload.workload import Workload
from tests.interop.broker_process import BrokerProcess

__all__ = ["Nemesis"]


class Nemesis:
    """The faults by name. After each fault the broker serves requests again."""

    def __init__(
        self,
        process: BrokerProcess,
        workload: Workload,
        recorder: Recorder,
        random: Random,
        *,
        power: Power | None = None,
        may_lose: bool = False,
    ) -> None:
        """`may_lose`: a power loss may take acknowledged records, because the broker does not wait for the disk."""
        self._process = process
        self._power = power
        self._may_lose = may_lose
        self._recorder = recorder
        self._random = random
        self.done: dict[str, int] = {}
        """How often each fault was injected."""
        self.faults: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "kill twice": self._kill_twice,
            "pause": lambda: self._pause(self._random.uniform(0.1, 3)),
            "long pause": lambda: self._pause(self._random.uniform(4, 10)),
            "restart": self._process.restart,
            "kill a client": lambda: workload.kill_client(random),
        }

    def strike(self, name: str | None = None) -> None:
        """Injects the named fault, or a random one. Raises RuntimeError if the broker does not come back."""
        name = name or self._random.choice(list(self.faults))
        self._recorder.record(Fault("nemesis", name))
        self.faults[name]()
        self._recorder.record(Fault("nemesis", f"{name} is over"))
        self.done[name] = self.done.get(name, 0) + 1

    def _kill(self) -> None:
        self._process.kill()
        if self._power is not None:
            if self._may_lose:
                synced = self._power.synced(partitions_of(*PARTITIONS))
                self._recorder.record(PowerCut("nemesis", tuple(synced.items())))
            self._power.cut()
        time.sleep(self._random.choice((0.0, 0.2, 2.0)) * self._random.random())
        self._process.start()

    def _kill_twice(self) -> None:
        """Kills the broker again while clients reconnect and coordinators load."""
        self._kill()
        time.sleep(self._random.random() * 0.5)
        self._kill()

    def _pause(self, seconds: float) -> None:
        """Stops the process: no request is answered and connections stay open. A long pause exceeds client timeouts."""
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

"""Faults of one broker: kill -9 and restart, also twice in a row; short and long pauses.

With a `Power`, each kill is also a power cut, which takes unsynced data.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from random import Random

from tests.checker.history import PowerCut, Recorder
from tests.checker.power import Power
from tests.checker.workload.roles import PARTITIONS, partitions_of
from tests.interop.broker_process import BrokerProcess

__all__ = ["BrokerFaults"]


class BrokerFaults:
    """The faults of a broker process."""

    def __init__(
        self,
        process: BrokerProcess,
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

    def by_name(self) -> Mapping[str, Callable[[], None]]:
        """Returns the faults by their names."""
        return {
            "kill": self._kill,
            "kill twice": self._kill_twice,
            "pause": lambda: self._pause(self._random.uniform(0.1, 3)),
            "long pause": lambda: self._pause(self._random.uniform(4, 10)),
            "restart": self._process.restart,
        }

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

"""Faults of several workers: kill -9 of workers and of their supervisor, pauses, and cuts of the network between
workers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from random import Random

from tests.checker.worker_brokers import WorkerBrokers
from tests.support.links import KINDS

__all__ = ["WorkerFaults"]


class WorkerFaults:
    """The faults of workers, which take turns."""

    def __init__(self, workers: WorkerBrokers, random: Random) -> None:
        self._workers = workers
        self._random = random
        self._turns = itertools.cycle(workers.numbers)

    def by_name(self) -> Mapping[str, Callable[[], None]]:
        """Returns the faults by their names."""
        return {
            "kill a worker": lambda: self._workers.kill(next(self._turns)),
            "kill a worker twice": self._kill_twice,
            "kill two workers": lambda: self._workers.kill(next(self._turns), next(self._turns)),
            "pause a worker": lambda: self._workers.pause(next(self._turns), self._random.uniform(0.1, 3)),
            "pause a worker for long": lambda: self._workers.pause(next(self._turns), self._random.uniform(4, 10)),
            "cut a link": self._cut,
            "kill the supervisor": self._kill_supervisor,
            "restart": self._restart,
        }

    def _kill_twice(self) -> None:
        """Kills a worker again while clients reconnect and coordinators load."""
        number = next(self._turns)
        self._workers.kill(number)
        time.sleep(self._random.random() * 0.5)
        self._workers.kill(number)

    def _cut(self) -> None:
        """Cuts the network from one worker to another, or between both, for some time."""
        source, target = self._random.sample(self._workers.numbers, 2)
        kind = self._random.choice(KINDS)
        self._workers.links.cut(source, target, kind)
        if self._random.random() < 0.5:
            self._workers.links.cut(target, source, kind)
        time.sleep(self._random.uniform(0.2, 5))
        self._workers.links.mend()

    def _kill_supervisor(self) -> None:
        self._workers.kill_supervisor()
        self._workers.start()

    def _restart(self) -> None:
        self._workers.stop()
        self._workers.start()

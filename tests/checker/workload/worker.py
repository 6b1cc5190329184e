"""What a client process does: one thing after the other until it is told to stop."""

from __future__ import annotations

import itertools
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from types import TracebackType

from confluent_kafka import KafkaError, KafkaException
from tests.checker.history import Problem, Recorder

__all__ = ["PATIENCE_S", "AsExceptions", "Setting", "Worker", "code_of"]

PATIENCE_S = 60.0
"""How long anything may take on an idle machine while nothing is wrong with the broker."""

_STUCK_S = 60


class Setting:
    """What a process needs to take part.

    `number` is one that no other process of the run has, `slowness` how many times slower the machine is than an idle
    one.
    """

    def __init__(
        self, recorder: Recorder, bootstrap_servers: str, seed: int, number: int = 0, *, slowness: float = 1.0
    ) -> None:
        self.recorder = recorder
        self.bootstrap_servers = bootstrap_servers
        self.seed = seed
        self.number = number
        self.slowness = slowness
        self._values = itertools.count(number * 100_000_000)
        self._operations = itertools.count()

    def next_value(self) -> int:
        """A value that no other record has."""
        return next(self._values)

    def next_operation(self) -> int:
        """A number that no other operation of this process has."""
        return next(self._operations)

    def stretched(self, seconds: float) -> float:
        """So many seconds of an idle machine, on this one."""
        return seconds * self.slowness

    def client_config(self) -> dict[str, str | int | float | bool]:
        """What every client needs: they come back quickly after the broker did, and say little."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "log_level": 0,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            # A paused broker is left for a new connection; what was sent on the old one it may still read.
            "socket.timeout.ms": 10_000,
        }


class Worker(ABC):
    """`step` is done again and again.

    Some errors are things that happen here: they are recorded, and `renew` is called for a new client.
    """

    passing: tuple[type[Exception], ...] = (KafkaException,)
    """Those errors; any other one ends the run."""

    def __init__(self, setting: Setting, name: str) -> None:
        self.setting = setting
        self.name = name
        self.recorder = setting.recorder
        self.random = Random(f"{setting.seed} {setting.number} {name}")
        self._lives = itertools.count(1)
        self.process = ""
        self._is_stopping = threading.Event()

    def stop(self) -> None:
        """It finishes what it is at."""
        self._is_stopping.set()

    def pause(self, seconds: float) -> None:
        """Waits, or until it is stopped."""
        self._is_stopping.wait(seconds)

    @property
    def is_stopping(self) -> bool:
        """Whether it was told to stop."""
        return self._is_stopping.is_set()

    def begin_life(self) -> None:
        """A new client has a new name."""
        self.process = f"{self.name}.{self.setting.number}.{next(self._lives)}"

    def run(self) -> None:
        """Until it is stopped."""
        self._attempt(self.renew)
        while not self.is_stopping:
            self._attempt(self.step)
        signal.alarm(0)
        self.finish()

    def _attempt(self, action: Callable[[], None]) -> None:
        while True:
            # A client that hangs in its library ends with SIGALRM, and another one takes its place.
            signal.alarm(int(self.setting.stretched(_STUCK_S)))
            try:
                with AsExceptions():
                    return action()
            except self.passing as error:
                self.recorder.record(Problem(self.process, str(error)))
                if self.is_stopping:
                    return None
                self.pause(0.2)
                action = self.renew

    @abstractmethod
    def renew(self) -> None:
        """Begins a new life, with a new client."""

    @abstractmethod
    def step(self) -> None:
        """One thing to do."""

    @abstractmethod
    def finish(self) -> None:
        """The last thing to do."""


class AsExceptions:
    """confluent-kafka 2.16 at times raises a client's fatal error as the KafkaError itself, which is no exception and
    which no `except` can name. It becomes the KafkaException that it was meant to be."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: object, traceback: TracebackType | None) -> None:
        if isinstance(error, KafkaError):
            raise KafkaException(error) from None


def code_of(error: KafkaException) -> KafkaError:
    """The error that it carries."""
    carried = error.args[0]
    assert isinstance(carried, KafkaError), carried
    return carried

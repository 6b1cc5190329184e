"""The loop of a client process, which repeats one step until it is stopped."""

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
"""Upper limit for any wait, on an idle machine and with a healthy broker."""

_STUCK_S = 60


class Setting:
    """The parameters of a client process.

    `number` is unique among the processes of a run. `slowness` is the machine's slowness as a multiple of an idle
    machine's time.
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
        """Returns a value that no other record has."""
        return next(self._values)

    def next_operation(self) -> int:
        """Returns a number that no other operation of this process has."""
        return next(self._operations)

    def stretched(self, seconds: float) -> float:
        """Returns the seconds on this machine that correspond to `seconds` on an idle one."""
        return seconds * self.slowness

    def client_config(self) -> dict[str, str | int | float | bool]:
        """Returns the settings of every client: fast reconnects after the broker returns, and little logging."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "log_level": 0,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            # The client leaves a paused broker for a new connection; the broker may still read the old one's requests.
            "socket.timeout.ms": 10_000,
        }


class Worker(ABC):
    """A client that repeats `step`.

    Errors in `passing` are expected: they are recorded, and `renew` is called for a new client.
    """

    passing: tuple[type[Exception], ...] = (KafkaException,)
    """The expected errors; any other error ends the run."""

    def __init__(self, setting: Setting, name: str) -> None:
        self.setting = setting
        self.name = name
        self.recorder = setting.recorder
        self.random = Random(f"{setting.seed} {setting.number} {name}")
        self._lives = itertools.count(1)
        self.process = ""
        self._is_stopping = threading.Event()

    def stop(self) -> None:
        """Asks the worker to stop after its current step."""
        self._is_stopping.set()

    def pause(self, seconds: float) -> None:
        """Waits for `seconds`, or until the worker is stopped."""
        self._is_stopping.wait(seconds)

    @property
    def is_stopping(self) -> bool:
        """Whether the worker was asked to stop."""
        return self._is_stopping.is_set()

    def begin_life(self) -> None:
        """Sets a new process name for a new client."""
        self.process = f"{self.name}.{self.setting.number}.{next(self._lives)}"

    def run(self) -> None:
        """Runs until the worker is stopped."""
        self._attempt(self.renew)
        while not self.is_stopping:
            self._attempt(self.step)
        signal.alarm(0)
        self.finish()

    def _attempt(self, action: Callable[[], None]) -> None:
        while True:
            # SIGALRM ends a client that hangs in its library, and the checker starts another one.
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
        """Begins a new life with a new client."""

    @abstractmethod
    def step(self) -> None:
        """Does one unit of work."""

    @abstractmethod
    def finish(self) -> None:
        """Does the last unit of work."""


class AsExceptions:
    """A context manager that raises a KafkaError as a KafkaException.

    confluent-kafka 2.16 sometimes raises a client's fatal error as the KafkaError itself. A KafkaError is no exception,
    so no `except` can name it.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: object, traceback: TracebackType | None) -> None:
        if isinstance(error, KafkaError):
            raise KafkaException(error) from None


def code_of(error: KafkaException) -> KafkaError:
    """Returns the KafkaError in the exception."""
    carried = error.args[0]
    assert isinstance(carried, KafkaError), carried
    return carried

"""Injects faults into a run, and notes them in its history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from tests.checker.history import Fault, Recorder

__all__ = ["Nemesis"]


class Nemesis:
    """The faults by name. After each fault all brokers serve requests again."""

    def __init__(self, faults: Mapping[str, Callable[[], None]], recorder: Recorder, random: Random) -> None:
        self._faults = dict(faults)
        self._recorder = recorder
        self._random = random
        self.done: dict[str, int] = {}
        """How often each fault was injected."""

    def strike(self, name: str | None = None) -> None:
        """Injects the named fault, or a random one. Raises RuntimeError if a broker does not come back."""
        name = name or self._random.choice(list(self._faults))
        self._recorder.record(Fault("nemesis", name))
        self._faults[name]()
        self._recorder.record(Fault("nemesis", f"{name} is over"))
        self.done[name] = self.done.get(name, 0) + 1

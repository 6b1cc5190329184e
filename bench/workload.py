"""What a row of the bench is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.load_programs import LoadPrograms
from bench.peers import Peer, RunningPeer

__all__ = ["PARTITIONS", "Figure", "LifeWorkload", "Load", "SteadyWorkload", "Workload"]

PARTITIONS = 6


@dataclass(frozen=True)
class Figure:
    """One number that a row yields.

    `target` is what klamm's value divided by Apache Kafka's has to reach: at least it where more is better, at most
    it where less is; `limit` is a bound on klamm's own value, in `unit`. A ratio of two other figures of the same round
    names them in `of`.
    """

    key: str
    title: str
    unit: str
    less_is_better: bool = False
    target: float | None = None
    limit: float | None = None
    digits: int = 1
    of: tuple[str, str] | None = None


@dataclass(frozen=True)
class Load:
    """How a workload loads a broker: the compiled programs, and the share of the full load that this run takes."""

    programs: LoadPrograms
    scale: float
    """1.0 in a full run, less with --quick."""

    def scaled(self, count: int) -> int:
        """`count`, as far as this run takes it."""
        return max(1, int(count * self.scale))


@dataclass(frozen=True)
class _Row:
    name: str
    title: str
    figures: tuple[Figure, ...]
    rounds: int
    without: Mapping[str, str] = field(default_factory=dict)
    """Peers that don't take part, with the reason."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Broker keys the row needs, the same on every peer that knows them."""


@dataclass(frozen=True)
class SteadyWorkload(_Row):
    """A row measured on brokers that run through all its rounds.

    `prepare` makes what every round needs and warms the broker up, unmeasured. `measure` runs one round, given its
    number, and returns the figures by key. `finish` ends what `prepare` has begun, even if that failed.
    """

    prepare: Callable[[RunningPeer, Load], None] = lambda running, load: None
    measure: Callable[[RunningPeer, Load, int], Mapping[str, float]] = lambda running, load, number: {}
    finish: Callable[[RunningPeer], None] = lambda running: None


@dataclass(frozen=True)
class LifeWorkload(_Row):
    """A row about the life of a broker process: every round starts its own in a fresh folder, and stops it."""

    measure: Callable[[Peer, Path, Load], Mapping[str, float]] = lambda peer, folder, load: {}


Workload = SteadyWorkload | LifeWorkload

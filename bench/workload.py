"""The parts of a row of the bench."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.load_programs import LoadPrograms
from bench.peers import Peer, RunningCluster, RunningPeer

__all__ = ["PARTITIONS", "ClusterWorkload", "Figure", "LifeWorkload", "Load", "SteadyWorkload", "Workload"]

PARTITIONS = 6


@dataclass(frozen=True)
class Figure:
    """One number of a row's result.

    `title` names it within its row's section. `target` is the bound for klamm's value divided by Apache Kafka's: the
    minimum if more is better, the maximum if less is better. `limit` is a bound for klamm's own value, in `unit`. A
    figure that is the ratio of two other figures of the same round names them in `of`.
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
    """The compiled programs that load a broker, and this run's share of the full load."""

    programs: LoadPrograms
    scale: float
    """1.0 in a full run, less with --quick."""

    def scaled(self, count: int) -> int:
        """Returns this run's share of `count`, at least 1."""
        return max(1, int(count * self.scale))


@dataclass(frozen=True)
class _Row:
    name: str
    title: str
    figures: tuple[Figure, ...]
    rounds: int
    section: str = ""
    """The heading under which the page shows the row, with the other rows of the same section; by default the title."""
    without: Mapping[str, str] = field(default_factory=dict)
    """Peers that don't take part, with the reason."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Broker keys that the row needs, the same on every peer that knows them."""


@dataclass(frozen=True)
class SteadyWorkload(_Row):
    """A row that is measured on the same broker process in all rounds.

    `prepare` creates what every round needs and warms the broker up, unmeasured. `measure` runs the round with the
    given number, and returns the figures by key. `finish` ends what `prepare` has started, even if `prepare` failed.
    """

    prepare: Callable[[RunningPeer, Load], None] = lambda running, load: None
    measure: Callable[[RunningPeer, Load, int], Mapping[str, float]] = lambda running, load, number: {}
    finish: Callable[[RunningPeer], None] = lambda running: None


@dataclass(frozen=True)
class ClusterWorkload(_Row):
    """A row that is measured on the same cluster of three brokers in all rounds, as `SteadyWorkload` on one broker."""

    prepare: Callable[[RunningCluster, Load], None] = lambda running, load: None
    measure: Callable[[RunningCluster, Load, int], Mapping[str, float]] = lambda running, load, number: {}


@dataclass(frozen=True)
class LifeWorkload(_Row):
    """A row about the life of a broker process or a cluster: each round starts its own in a new folder."""

    measure: Callable[[Peer, Path, Load], Mapping[str, float]] = lambda peer, folder, load: {}


Workload = SteadyWorkload | ClusterWorkload | LifeWorkload

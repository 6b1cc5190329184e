"""The figures of a run: medians, klamm's ratio to Apache Kafka, and the verdict on each target."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka

from bench.run import RowResult
from bench.workload import Figure, Workload

__all__ = ["SHORT_NAMES", "Outcome", "Section", "machine_facts", "median_of", "ratio_to_kafka", "verdict_of"]

SHORT_NAMES = {
    "klamm": "klamm",
    "baseline": "baseline",
    "kafka": "Kafka",
    "tansu": "Tansu",
    "mock": "mock",
    "workers2": "2 workers",
    "workers4": "4 workers",
}
"""The peers' names in tables and charts."""
_ROUNDS_THAT_TELL = 3


@dataclass(frozen=True)
class Section:
    """The rows that a page shows under one heading, with the figures that were measured."""

    title: str
    workloads: Sequence[Workload]
    figures: Sequence[tuple[Figure, RowResult]]
    peers: Sequence[str]
    """The keys of the peers that have at least one figure."""


@dataclass(frozen=True)
class Outcome:
    """A whole run: `peers` maps a peer's key to its printed name, `missing` a peer's key to the reason."""

    workloads: Sequence[Workload]
    results: Mapping[str, RowResult]
    peers: Mapping[str, str]
    missing: Mapping[str, str]
    facts: Mapping[str, str]

    def sections(self) -> Iterator[Section]:
        """Yields the sections in the order of their first rows."""
        titles = dict.fromkeys(workload.section or workload.title for workload in self.workloads)
        for title in titles:
            workloads = [workload for workload in self.workloads if title == (workload.section or workload.title)]
            figures = [
                (figure, self.results[workload.name])
                for workload in workloads
                for figure in workload.figures
                if any(median_of(self.results[workload.name], peer, figure.key) is not None for peer in self.peers)
            ]
            peers = [peer for peer in self.peers if any(peer in result.rounds for _figure, result in figures)]
            yield Section(title, workloads, figures, peers)


def median_of(result: RowResult, peer: str, key: str) -> float | None:
    """Returns the median over a peer's rounds; None if it has none."""
    if (published := result.published.get(key)) is not None:
        return published.medians.get(peer)
    values = [figures[key] for figures in result.rounds.get(peer, ()) if key in figures]
    return statistics.median(values) if values else None


def ratio_to_kafka(result: RowResult, key: str) -> float | None:
    """Returns klamm's median divided by Apache Kafka's; None if either is missing."""
    if (published := result.published.get(key)) is not None:
        return published.ratio
    ours, theirs = median_of(result, "klamm", key), median_of(result, "kafka", key)
    return ours / theirs if ours is not None and theirs else None


def machine_facts() -> dict[str, str]:
    """Returns the facts about the machine and the software that the figures depend on."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "Processor": f"{model}, {len(os.sched_getaffinity(0))} cores",
        "Memory": f"{memory_bytes / 1e9:.0f} GB",
        "System": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "Client": f"librdkafka {confluent_kafka.libversion()[0]}",
    }


def verdict_of(figure: Figure, result: RowResult) -> str:
    """Returns reached, level or missed: the worst verdict, if the figure has both a target and a limit."""
    if (published := result.published.get(figure.key)) is not None:
        return published.verdict
    sign = -1 if figure.less_is_better else 1
    verdicts = []
    ratio = ratio_to_kafka(result, figure.key)
    if figure.target is not None and ratio is not None:
        kept = [_sorted_rounds(result, peer, figure.key) for peer in ("klamm", "kafka")]
        verdicts.append(_judge(sign * ratio >= sign * figure.target, figure.target == 1, kept))
    if figure.limit is not None:
        # A figure that compares two sources is judged on both brokers.
        for peer in ("klamm",) if figure.of is None else ("klamm", "kafka"):
            value = median_of(result, peer, figure.key)
            if value is not None:
                sides = [_sorted_rounds(result, peer, key) for key in figure.of or ()]
                verdicts.append(_judge(sign * value >= sign * figure.limit, figure.limit == 1, sides))
    return max(verdicts, key=("reached", "level", "missed").index, default="")


def _judge(is_reached: bool, is_of_one: bool, sides: Sequence[Sequence[float]]) -> str:
    if is_reached:
        return "reached"
    return "level" if is_of_one and len(sides) == 2 and _is_level(*sides) else "missed"


def _is_level(one: Sequence[float], other: Sequence[float]) -> bool:
    """Returns whether the rounds don't tell two sides apart: each median lies within the other side's rounds."""
    if min(len(one), len(other)) < _ROUNDS_THAT_TELL:
        return False
    return one[0] <= statistics.median(other) <= one[-1] and other[0] <= statistics.median(one) <= other[-1]


def _sorted_rounds(result: RowResult, peer: str, key: str) -> list[float]:
    return sorted(figures[key] for figures in result.rounds.get(peer, ()) if key in figures)

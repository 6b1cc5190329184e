"""The results as a Markdown table: medians, klamm's ratio to Apache Kafka, and whether it reached its target."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka

from bench.run import RowResult
from bench.workload import Figure, Workload

__all__ = ["Outcome", "machine_facts", "markdown", "median_of", "ratio_to_kafka"]

_NONE = "-"
_ROUNDS_THAT_TELL = 3
_EXPLANATIONS = Path(__file__).parent / "misses"


@dataclass(frozen=True)
class Outcome:
    """A whole run: `peers` maps a peer's key to its printed name, `missing` a peer's key to the reason."""

    workloads: Sequence[Workload]
    results: Mapping[str, RowResult]
    peers: Mapping[str, str]
    missing: Mapping[str, str]
    facts: Mapping[str, str]

    def figures(self) -> Iterator[tuple[Figure, RowResult]]:
        """Yields every figure of every row that ran, with the row's result."""
        for workload in self.workloads:
            for figure in workload.figures:
                yield figure, self.results[workload.name]


_SUBJECTS = {
    "": "produce, consume, start, memory",
    "groups": "consumer groups",
    "log": "the log",
    "spark": "the Spark source",
}
"""The subject of each page, by the end of its name."""


def median_of(result: RowResult, peer: str, key: str) -> float | None:
    """Returns the median over a peer's rounds; None if it has none."""
    values = [figures[key] for figures in result.rounds.get(peer, ()) if key in figures]
    return statistics.median(values) if values else None


def ratio_to_kafka(result: RowResult, key: str) -> float | None:
    """Returns klamm's median divided by Apache Kafka's; None if either is missing."""
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


def _target(figure: Figure) -> str:
    parts = []
    if figure.target is not None:
        parts.append(f"{'≤' if figure.less_is_better else '≥'} {figure.target:g} x")
    if figure.limit is not None:
        parts.append(f"{'≤' if figure.less_is_better else '≥'} {figure.limit:g} {figure.unit}")
    return ", ".join(parts)


def _verdict(figure: Figure, result: RowResult) -> str:
    """Returns reached, level or missed: the worst verdict, if the figure has both a target and a limit."""
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


def _row(figure: Figure, result: RowResult, peers: Iterable[str]) -> str:
    values = [median_of(result, peer, figure.key) for peer in peers]
    ratio = ratio_to_kafka(result, figure.key)
    cells = [
        figure.title,
        figure.unit,
        *(_NONE if value is None else f"{value:,.{figure.digits}f}" for value in values),
        _NONE if ratio is None else f"{ratio:.2f}",
        _target(figure),
        _verdict(figure, result),
    ]
    return f"| {' | '.join(cells)} |"


def _missing(outcome: Outcome) -> Iterator[str]:
    for peer, reason in outcome.missing.items():
        yield f"- {peer}: {reason}"
    for workload in outcome.workloads:
        for peer, reason in outcome.results[workload.name].reasons.items():
            yield f'- {outcome.peers[peer]}, "{workload.title}": {reason}'


def _rounds(outcome: Outcome) -> Iterator[str]:
    for figure, result in outcome.figures():
        if figure.key in ("records_per_second", "p50_ms"):
            continue  # They repeat the figure next to them in another unit.
        for peer, name in outcome.peers.items():
            if peer not in result.rounds:
                continue
            values = ", ".join(f"{figures[figure.key]:,.{figure.digits}f}" for figures in result.rounds[peer])
            used, share = median_of(result, peer, "broker_cpu_seconds"), median_of(result, peer, "client_cpu_share")
            cells = [
                f"{figure.title}, {figure.unit}",
                name,
                values,
                _NONE if used is None else f"{used:.2f} s",
                _NONE if share is None else f"{share:.0%}",
            ]
            yield f"| {' | '.join(cells)} |"


def _misses(outcome: Outcome) -> Iterator[str]:
    """Yields the explanation from misses/<row>.md for each row that misses its target, or is level with it."""
    for workload in outcome.workloads:
        result = outcome.results[workload.name]
        verdicts = {_verdict(figure, result) for figure in workload.figures}
        explanation = _EXPLANATIONS / f"{workload.name}.md"
        if "missed" in verdicts or ("level" in verdicts and explanation.exists()):
            yield f"### {workload.title}"
            yield ""
            yield explanation.read_text(encoding="utf-8").strip() if explanation.exists() else "Not explained yet."
            yield ""


def markdown(outcome: Outcome, *, picture: str, about: str) -> str:
    """Returns the whole document. `picture` is the PNG's path relative to it; `about` is the topic of a page with only
    some rows.
    """
    header = ["Row", "Unit", *outcome.peers.values(), "klamm / Kafka", "Target", "klamm"]
    lines = [
        f"# Benchmarks: {_SUBJECTS.get(about, about)}",
        "",
        *(f"- {name}: {fact}" for name, fact in outcome.facts.items()),
        "",
        f"![klamm compared with its peers]({picture})",
        "",
        f"| {' | '.join(header)} |",
        "|---|---|" + "---:|" * (len(outcome.peers) + 1) + "---|---|",
        *(_row(figure, result, outcome.peers) for figure, result in outcome.figures()),
        "",
        "Medians over the rounds of a row, the brokers taking turns. A target is klamm's figure divided by Kafka's. "
        "Level is what three rounds or more don't tell apart: the median of each of the two lies within the other's "
        "rounds.",
        "",
    ]
    if missing := list(_missing(outcome)):
        lines += ["## What is missing, and why", "", *missing, ""]
    if misses := list(_misses(outcome)):
        lines += ["## Rows that miss their target, or are level, and why", "", *misses]
    lines += [
        "## Round by round",
        "",
        "| Row | Broker | Rounds, in order | Broker's processor time per round | Client's share of a core |",
        "|---|---|---|---:|---:|",
        *_rounds(outcome),
        "",
    ]
    return "\n".join(lines)

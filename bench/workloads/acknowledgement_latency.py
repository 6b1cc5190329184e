"""The time from produce() to the acknowledgement by all in-sync replicas, at a steady 10,000 records a second.

Without linger, so that the figure shows the broker's latency and not the client's wait.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers import RunningPeer
from bench.workload import PARTITIONS, Figure, Load, SteadyWorkload

__all__ = ["WORKLOAD"]

_RATE_PER_SECOND = 10_000
_SECONDS = 5
_SETTINGS = {"acks": "all", "linger.ms": "0"}


def _latency(running: RunningPeer, load: Load, topic: str, count: int) -> Mapping[str, float]:
    running.create_topic(topic, PARTITIONS)
    taken = load.programs.run(
        "acknowledge",
        bootstrap=running.bootstrap_servers,
        topic=topic,
        settings=_SETTINGS,
        partitions=PARTITIONS,
        size=100,
        rate=_RATE_PER_SECOND,
        count=count,
        warm_up=_RATE_PER_SECOND // 2,
    )
    running.delete_topic(topic)
    return {"p50_ms": taken["p50_ms"], "p99_ms": taken["p99_ms"]}


def _prepare(running: RunningPeer, load: Load) -> None:
    # Not scaled in a quick run: a JVM that still compiles has a higher latency.
    _latency(running, load, "warm-up", _RATE_PER_SECOND * _SECONDS)


def _measure(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    return _latency(running, load, f"round-{number}", load.scaled(_RATE_PER_SECOND * _SECONDS))


WORKLOAD = SteadyWorkload(
    name="acknowledgement_latency",
    title="Acknowledgement at 10,000 records/s",
    section="Latency",
    figures=(
        Figure("p50_ms", "acknowledgement at 10,000 records/s, p50", "ms", less_is_better=True, digits=2),
        Figure("p99_ms", "acknowledgement at 10,000 records/s, p99", "ms", less_is_better=True, target=1.0, digits=2),
    ),
    rounds=5,
    prepare=_prepare,
    measure=_measure,
)

"""Produce records of 1 KB as fast as the broker takes them."""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers import RunningPeer
from bench.workload import Figure, Load, SteadyWorkload
from bench.workloads.throughput import produce_all

__all__ = ["WORKLOAD"]

_SIZE_BYTES = 1000
_COUNT = 800_000


def _prepare(running: RunningPeer, load: Load) -> None:
    produce_all(running, load, "warm-up", size_bytes=_SIZE_BYTES, count=load.scaled(_COUNT))
    running.delete_topic("warm-up")


def _measure(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    topic = f"round-{number}"
    speed = produce_all(running, load, topic, size_bytes=_SIZE_BYTES, count=load.scaled(_COUNT))
    running.delete_topic(topic)
    return speed


WORKLOAD = SteadyWorkload(
    name="produce_1_kilobyte",
    title="Produce, 1 KB records",
    section="Produce",
    figures=(
        Figure("megabytes_per_second", "1 KB records", "MB/s", target=1.0),
        Figure("records_per_second", "1 KB records", "records/s", target=1.0, digits=0),
    ),
    rounds=5,
    prepare=_prepare,
    measure=_measure,
)

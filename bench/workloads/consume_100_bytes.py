"""Consume a topic of 100 B records from its start, straight from the page cache."""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers import RunningPeer
from bench.workload import Figure, Load, SteadyWorkload
from bench.workloads.throughput import consume_all, produce_all

__all__ = ["WORKLOAD"]

_SIZE_BYTES = 100
_COUNT = 4_000_000
_TOPIC = "to-read"


def _prepare(running: RunningPeer, load: Load) -> None:
    count = load.scaled(_COUNT)
    produce_all(running, load, _TOPIC, size_bytes=_SIZE_BYTES, count=count)
    consume_all(running, load, _TOPIC, count=count)


def _measure(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    return consume_all(running, load, _TOPIC, count=load.scaled(_COUNT))


WORKLOAD = SteadyWorkload(
    name="consume_100_bytes",
    title="Consume from the start, 100 B records",
    section="Consume",
    figures=(
        Figure("megabytes_per_second", "from the start, 100 B records", "MB/s", target=1.0),
        Figure("records_per_second", "from the start, 100 B records", "records/s", target=1.0, digits=0),
    ),
    rounds=5,
    without={"mock": "it keeps only the last 5 MB of a partition"},
    prepare=_prepare,
    measure=_measure,
)

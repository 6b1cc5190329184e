"""One consumer of six partitions, as in many applications: `consume_batch`, and topics in batches of 16 KB.

This is the default batch size of Java's producer. A response contains hundreds of batches. Each round reads a new topic
twice, so that the first read counts as much as the second.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers import RunningPeer
from bench.workload import Figure, Load, SteadyWorkload
from bench.workloads.throughput import SETTINGS, consume_all, produce_all

__all__ = ["WORKLOAD"]

_SETTINGS = {**SETTINGS, "batch.size": "16384"}
_SIZES_BYTES = {"100_bytes": 100, "1_kilobyte": 1000}
_COUNTS = {"100_bytes": 2_000_000, "1_kilobyte": 600_000}
_TIMES = 2


def _prepare(running: RunningPeer, load: Load) -> None:
    _measure(running, load, -1)


def _measure(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
    figures: dict[str, float] = {}
    for name, size_bytes in _SIZES_BYTES.items():
        topic = f"{name}-{number}"
        count = load.scaled(_COUNTS[name])
        produce_all(running, load, topic, size_bytes=size_bytes, count=count, settings=_SETTINGS)
        speeds = [consume_all(running, load, topic, count=count) for _ in range(_TIMES)]
        running.delete_topic(topic)
        figures[name] = sum(speed["megabytes_per_second"] for speed in speeds) / _TIMES
    return figures


WORKLOAD = SteadyWorkload(
    name="consume_small_batches",
    title="One consumer of six partitions, batches of 16 KB",
    section="Consume",
    figures=(
        Figure("100_bytes", "six partitions, batches of 16 KB, 100 B records", "MB/s", target=1.0),
        Figure("1_kilobyte", "six partitions, batches of 16 KB, 1 KB records", "MB/s", target=1.0),
    ),
    rounds=5,
    without={"mock": "it keeps only the last 5 MB of a partition"},
    prepare=_prepare,
    measure=_measure,
)

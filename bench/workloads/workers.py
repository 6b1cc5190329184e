"""Several workers behind one command, next to one worker and Apache Kafka: what more processes bring, and cost.

The client takes processors, too. So each rate is also shown for a second of the broker's processor time: it says what a
machine with more cores could serve, as long as no single partition limits it. This matters most for heartbeats: on few
cores their rate depends on what the load takes of them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.many_groups import MakeGroups, make_classic_groups, make_consumer_groups
from bench.measure import cpu_seconds, resident_bytes
from bench.peers import Peer, RunningPeer
from bench.workload import PARTITIONS, Figure, LifeWorkload, Load, SteadyWorkload
from bench.workloads.many_groups import measure_groups
from bench.workloads.throughput import OF_SEVERAL_BROKERS, consume_all, produce_all

__all__ = ["WORKLOADS"]

_COUNT = 4_000_000
_SMALL_COUNT = 60_000
_SIZE_BYTES = 100
_TICK_S = 0.01
"""The kernel counts processor time in such steps."""
_ONE_RECORD = {"acks": "all", "linger.ms": "0", "batch.num.messages": "1"}
_WITHOUT = {
    "tansu": "the rows compare processes of one broker",
    "mock": "the rows compare processes of one broker",
}
_SECTION = "Workers"

Measure = Callable[[RunningPeer, Load, str], Mapping[str, float]]


def _produce(running: RunningPeer, load: Load, topic: str) -> Mapping[str, float]:
    return produce_all(running, load, topic, size_bytes=_SIZE_BYTES, count=load.scaled(_COUNT))


def _request(running: RunningPeer, load: Load, topic: str) -> Mapping[str, float]:
    count = load.scaled(_SMALL_COUNT)
    return produce_all(running, load, topic, size_bytes=_SIZE_BYTES, count=count, settings=_ONE_RECORD)


def _per_processor_second(measure: Measure, running: RunningPeer, load: Load, topic: str) -> Mapping[str, float]:
    """Returns the rate, and the rate divided by the number of processors that the broker was busy with."""
    before, began = cpu_seconds(running.process_id), time.monotonic()
    rate = measure(running, load, topic)["records_per_second"]
    taken = max(_TICK_S, cpu_seconds(running.process_id) - before)
    return {"rate": rate, "rate_per_processor": rate * (time.monotonic() - began) / taken}


def _writes(name: str, title: str, measure: Measure) -> SteadyWorkload:
    def prepare(running: RunningPeer, load: Load) -> None:
        measure(running, load, "warm-up")
        running.delete_topic("warm-up")

    def measure_round(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
        figures = _per_processor_second(measure, running, load, f"round-{number}")
        running.delete_topic(f"round-{number}")
        return figures

    return _row(name, title, prepare, measure_round)


def _reads() -> SteadyWorkload:
    def read(running: RunningPeer, load: Load, topic: str) -> Mapping[str, float]:
        return consume_all(running, load, topic, count=load.scaled(_COUNT), settings=OF_SEVERAL_BROKERS)

    def prepare(running: RunningPeer, load: Load) -> None:
        _produce(running, load, "to-read")
        read(running, load, "to-read")

    def measure(running: RunningPeer, load: Load, number: int) -> Mapping[str, float]:
        return _per_processor_second(read, running, load, "to-read")

    return _row("workers_consume", "consume, 100 B records", prepare, measure)


def _row(
    name: str,
    title: str,
    prepare: Callable[[RunningPeer, Load], None],
    measure: Callable[[RunningPeer, Load, int], Mapping[str, float]],
) -> SteadyWorkload:
    return SteadyWorkload(
        name=name,
        title=f"Workers: {title}",
        section=_SECTION,
        figures=(
            Figure("rate", title, "records/s", digits=0),
            Figure("rate_per_processor", f"{title}, per processor of the broker", "records/s", digits=0),
        ),
        rounds=5,
        without=_WITHOUT,
        prepare=prepare,
        measure=measure,
    )


def _measure_life(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    running = peer.start(folder, {})
    try:
        time.sleep(3)
        idle = resident_bytes(running.process_id)
        running.create_topic("spread", PARTITIONS)
        seconds = running.seconds_to_first_answer
    finally:
        running.stop()
    return {"seconds": seconds, "megabytes": idle / 1e6}


def _heartbeats(name: str, kind: str, make: MakeGroups) -> LifeWorkload:
    title = f"heartbeats of 10,000 {kind} groups"
    return LifeWorkload(
        name=name,
        title=f"Workers: {title}",
        section=_SECTION,
        figures=(
            Figure("per_second", title, "/s", digits=0),
            Figure("per_processor", f"{title}, per processor of the broker", "/s", digits=0),
            Figure("megabytes", f"memory with 10,000 {kind} groups", "MB", less_is_better=True, digits=0),
        ),
        rounds=2,
        without=_WITHOUT,
        measure=lambda peer, folder, load: measure_groups(peer, folder, load, make),
    )


# The first start includes the imports; a test run pays for them once.
_START_CLUSTERS = """
import time
for _ in range(2):
    began = time.monotonic()
    from klamm.testing import Cluster
    with Cluster(brokers=3):
        print(time.monotonic() - began)
"""


def _measure_cluster(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    started = subprocess.run([sys.executable, "-c", _START_CLUSTERS], capture_output=True, text=True, check=True)
    first, later = map(float, started.stdout.split())
    return {"first": first, "later": later}


WORKLOADS = (
    _writes("workers_produce", "produce, 100 B records", _produce),
    _writes("workers_one_record", "one record in each request", _request),
    _reads(),
    _heartbeats("workers_classic_heartbeats", "classic", make_classic_groups),
    _heartbeats("workers_consumer_heartbeats", "consumer-protocol", make_consumer_groups),
    LifeWorkload(
        name="workers_life",
        title="Workers: start and memory",
        section=_SECTION,
        figures=(
            Figure("seconds", "start to the first answer", "s", less_is_better=True, digits=2),
            Figure("megabytes", "memory, idle", "MB", less_is_better=True, digits=0),
        ),
        rounds=3,
        without=_WITHOUT,
        measure=_measure_life,
    ),
    LifeWorkload(
        name="test_cluster",
        title="Workers: a cluster inside a test",
        section=_SECTION,
        figures=(
            Figure("first", "three brokers in a test, first start", "s", less_is_better=True, limit=1.0, digits=2),
            Figure("later", "three brokers in a test, later starts", "s", less_is_better=True, limit=1.0, digits=3),
        ),
        rounds=5,
        without={
            **_WITHOUT,
            **dict.fromkeys(
                ("kafka", "workers2", "workers4", "baseline"), "it is a part of klamm, in the test's process"
            ),
        },
        measure=_measure_cluster,
    ),
)
"""In this order: 100-byte records, one-record requests, reads, heartbeats, start and memory, a cluster in a test."""

"""Three brokers with three replicas of each partition, on one machine: what copying costs, how long a failover takes.

Both sides run with the same settings: `min.insync.replicas=2`, and the same defaults of the session timeout (9 s) and
of the replica lag (30 s). The memory and the processor time of klamm include etcd's.
"""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from bench.peers import Peer, RunningCluster
from bench.wire import Connection
from bench.workload import PARTITIONS, ClusterWorkload, Figure, LifeWorkload, Load
from bench.workloads.throughput import OF_SEVERAL_BROKERS, consume_all, produce_all
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse

__all__ = ["WORKLOADS"]

_SECTION = "Clusters of three brokers"
_WITHOUT = {
    "tansu": "the rows compare clusters",
    "mock": "the rows compare clusters",
    "workers2": "the rows compare clusters",
    "workers4": "the rows compare clusters",
}
_SMALL_BYTES, _LARGE_BYTES = 100, 1000
_SMALL_COUNT, _LARGE_COUNT = 2_000_000, 400_000
_RATE_PER_SECOND = 1_000
_LATENCY_SECONDS = 5
_LATENCY_WARM_UP_SECONDS = 60
"""The JVM compiles code during the first minute: without a warm-up, each of Kafka's rounds is faster than the one
before."""
_BEFORE_KILL_S = 2.0
_AFTER_KILL_S = 2.0
_FAILOVER_LIMIT_S = 90.0
_ASK_INTERVAL_S = 0.005
_RESTING_PARTITIONS = 10_000
_PARTITIONS_OF_A_TOPIC = 200
_SETTLE_S = 30.0
_REST_S = 20.0
_COPIED_COUNT = 400_000


def _produce(size_bytes: int, count: int) -> Callable[[RunningCluster, Load, str], Mapping[str, float]]:
    def measure(running: RunningCluster, load: Load, topic: str) -> Mapping[str, float]:
        speed = produce_all(running, load, topic, size_bytes=size_bytes, count=load.scaled(count))
        running.delete_topic(topic)
        return speed

    return measure


def _consume(running: RunningCluster, load: Load, topic: str) -> Mapping[str, float]:
    return consume_all(running, load, "to-read", count=load.scaled(_SMALL_COUNT), settings=OF_SEVERAL_BROKERS)


def _fill(running: RunningCluster, load: Load) -> None:
    produce_all(running, load, "to-read", size_bytes=_SMALL_BYTES, count=load.scaled(_SMALL_COUNT))


def _acknowledge(
    running: RunningCluster, load: Load, topic: str, seconds: int = _LATENCY_SECONDS
) -> Mapping[str, float]:
    running.create_topic(topic, PARTITIONS)
    taken = load.programs.run(
        "acknowledge",
        bootstrap=running.bootstrap_servers,
        topic=topic,
        settings={"acks": "all", "linger.ms": "0"},
        partitions=PARTITIONS,
        size=_SMALL_BYTES,
        rate=_RATE_PER_SECOND,
        count=load.scaled(_RATE_PER_SECOND * seconds),
        warm_up=_RATE_PER_SECOND // 2,
    )
    running.delete_topic(topic)
    return {"p50_ms": taken["p50_ms"], "p99_ms": taken["p99_ms"]}


def _warm_up_acknowledge(running: RunningCluster, load: Load) -> None:
    _acknowledge(running, load, "before", _LATENCY_WARM_UP_SECONDS)


def _row(
    name: str,
    title: str,
    figures: tuple[Figure, ...],
    measure: Callable[[RunningCluster, Load, str], Mapping[str, float]],
    fill: Callable[[RunningCluster, Load], None] = lambda running, load: None,
) -> ClusterWorkload:
    def prepare(running: RunningCluster, load: Load) -> None:
        fill(running, load)
        measure(running, load, "warm-up")

    return ClusterWorkload(
        name=name,
        title=f"Cluster: {title}",
        section=_SECTION,
        figures=figures,
        rounds=5,
        without=_WITHOUT,
        prepare=prepare,
        measure=lambda running, load, number: measure(running, load, f"round-{number}"),
    )


def _rate(title: str) -> tuple[Figure, ...]:
    return (Figure("megabytes_per_second", title, "MB/s", target=1.0),)


class _Gap:
    """The longest time between two successes in a row, counted by one thread and read by another."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self.longest_s = 0.0
        self.successes = 0

    def success(self) -> None:
        """Notes a success now."""
        now = time.monotonic()
        if self.successes:
            self.longest_s = max(self.longest_s, now - self._last)
        self._last = now
        self.successes += 1

    def wait_for(self, successes: int) -> None:
        """Waits until this number of requests has succeeded. Raises TimeoutError."""
        deadline = time.monotonic() + _FAILOVER_LIMIT_S
        while self.successes < successes:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.successes} of {successes} requests have succeeded")
            time.sleep(_ASK_INTERVAL_S)


def _over_a_kill(gap: _Gap, attempt: Callable[[], None], kill: Callable[[], None]) -> float:
    """Attempts again and again, kills a broker meanwhile, and returns the longest time without a success in seconds."""
    is_over = threading.Event()

    def attempts() -> None:
        while not is_over.is_set():
            attempt()

    thread = threading.Thread(target=attempts)
    thread.start()
    try:
        gap.wait_for(1)
        time.sleep(_BEFORE_KILL_S)
        kill()
        killed = gap.successes
        gap.wait_for(killed + 1)
        time.sleep(_AFTER_KILL_S)
        gap.wait_for(killed + 10)
    finally:
        is_over.set()
        thread.join()
    return gap.longest_s


def _write_failover(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    running = peer.start_cluster(folder, {})
    try:
        running.create_topic("orders", 1)
        gap = _Gap()

        def acknowledged(error: KafkaError | None, message: Message) -> None:
            if error is None:
                gap.success()

        producer = Producer(
            {"bootstrap.servers": running.bootstrap_servers, "acks": "all", "linger.ms": 0, "log_level": 0}
        )
        numbers = itertools.count()

        def attempt() -> None:
            producer.produce("orders", str(next(numbers)), on_delivery=acknowledged)
            producer.poll(_ASK_INTERVAL_S)

        seconds = _over_a_kill(gap, attempt, lambda: running.leader_of("orders").kill())
        producer.flush(_FAILOVER_LIMIT_S)
    finally:
        running.stop()
    return {"seconds": seconds}


def _commit(running: RunningCluster) -> bool:
    """Asks a live broker for the coordinator, and commits an offset there; returns whether that succeeded.

    With requests of its own, because librdkafka sometimes waits for its `socket.timeout.ms` after a kill.
    """
    asked = next(broker for broker in running.brokers if broker.process.poll() is None)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition(partition_index=0)])
    try:
        with Connection(asked.address) as connection:
            (found,) = connection.ask_all(FindCoordinatorResponse, 3, [FindCoordinatorRequest(key="billing")])
        if found.error_code:
            return False
        with Connection(f"{found.host}:{found.port}") as coordinator:
            request = OffsetCommitRequest(group_id="billing", topics=[topic])
            (committed,) = coordinator.ask_all(OffsetCommitResponse, 7, [request])
    except (OSError, struct.error):
        return False
    return not committed.topics[0].partitions[0].error_code


def _group_failover(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    running = peer.start_cluster(folder, {})
    try:
        running.create_topic("orders", 1)
        gap = _Gap()

        def attempt() -> None:
            if _commit(running):
                gap.success()
            else:
                time.sleep(_ASK_INTERVAL_S)

        seconds = _over_a_kill(gap, attempt, lambda: running.coordinator_of("billing").kill())
    finally:
        running.stop()
    return {"seconds": seconds}


def _catch_up(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    """Measures how fast a broker whose partitions are gone copies them again."""
    running = peer.start_cluster(folder, {})
    try:
        count = load.scaled(_COPIED_COUNT)
        produce_all(running, load, "to-copy", size_bytes=_LARGE_BYTES, count=count)
        broker = running.brokers[-1]
        broker.terminate()
        broker.forget("to-copy")
        broker.start_again()
        started = running.wait_for(broker)
        seconds = running.wait_in_sync("to-copy") - started
    finally:
        running.stop()
    return {"megabytes_per_second": count * _LARGE_BYTES / seconds / 1e6}


def _at_rest(peer: Peer, folder: Path, load: Load) -> Mapping[str, float]:
    running = peer.start_cluster(folder, {})
    try:
        empty = running.resident_bytes()
        topics = max(1, load.scaled(_RESTING_PARTITIONS) // _PARTITIONS_OF_A_TOPIC)
        for number in range(topics):
            running.create_topic(f"resting-{number}", _PARTITIONS_OF_A_TOPIC)
        time.sleep(_SETTLE_S)
        asked, used, began = running.received_segments(), running.cpu_seconds(), time.monotonic()
        time.sleep(_REST_S)
        seconds = time.monotonic() - began
        share = (running.cpu_seconds() - used) / seconds
        requests = sum(count - asked.get(key, 0) for key, count in running.received_segments().items()) / seconds
        filled = running.resident_bytes()
    finally:
        running.stop()
    return {
        "empty_megabytes": empty / 1e6,
        "megabytes": filled / 1e6,
        "cpu_share": 100 * share,
        "requests": requests,
    }


def _life(
    name: str,
    title: str,
    figures: tuple[Figure, ...],
    measure: Callable[[Peer, Path, Load], Mapping[str, float]],
) -> LifeWorkload:
    return LifeWorkload(
        name=name,
        title=f"Cluster: {title}",
        section=_SECTION,
        figures=figures,
        rounds=5,
        without=_WITHOUT,
        measure=measure,
    )


def _seconds(title: str) -> tuple[Figure, ...]:
    return (Figure("seconds", title, "s", less_is_better=True, target=1.0),)


_WRITES = "produce with acks=all"
_LATENCY = f"acknowledgement at {_RATE_PER_SECOND:,} records/s"

WORKLOADS = (
    _row("cluster_produce_100", f"{_WRITES}, 100 B", _rate(f"{_WRITES}, 100 B"), _produce(_SMALL_BYTES, _SMALL_COUNT)),
    _row("cluster_produce_1000", f"{_WRITES}, 1 KB", _rate(f"{_WRITES}, 1 KB"), _produce(_LARGE_BYTES, _LARGE_COUNT)),
    _row(
        "cluster_acknowledge",
        _LATENCY,
        (
            Figure("p50_ms", f"{_LATENCY}, p50", "ms", less_is_better=True, digits=2),
            Figure("p99_ms", f"{_LATENCY}, p99", "ms", less_is_better=True, target=1.0, digits=2),
        ),
        _acknowledge,
        _warm_up_acknowledge,
    ),
    _row("cluster_consume", "consume, 100 B", _rate("consume, 100 B"), _consume, _fill),
    _life(
        "cluster_write_failover",
        "writes after kill -9 of the leader",
        _seconds("writes stand still after kill -9 of the leader"),
        _write_failover,
    ),
    _life(
        "cluster_group_failover",
        "commits after kill -9 of the coordinator",
        _seconds("commits stand still after kill -9 of the coordinator"),
        _group_failover,
    ),
    _life("cluster_catch_up", "an empty replica catches up", _rate("an empty replica catches up"), _catch_up),
    _life(
        "cluster_at_rest",
        "10,000 partitions at rest",
        (
            Figure("empty_megabytes", "memory, no topics", "MB", less_is_better=True, target=0.33, digits=0),
            Figure("megabytes", "memory, 10,000 partitions", "MB", less_is_better=True, target=0.33, digits=0),
            Figure("cpu_share", "processors, 10,000 partitions at rest", "%", less_is_better=True, target=1.0),
            Figure("requests", "requests between brokers, 10,000 partitions at rest", "/s", less_is_better=True),
        ),
        _at_rest,
    ),
)
"""In this order: produce, latency, consume, failovers, catching up, at rest."""

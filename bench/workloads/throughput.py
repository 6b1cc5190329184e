"""The common parts of the produce and consume rows: topics of a given record size, filled and read at full speed."""

from __future__ import annotations

from collections.abc import Mapping

from bench.peers import RunningCluster, RunningPeer
from bench.workload import PARTITIONS, Load

__all__ = ["OF_SEVERAL_BROKERS", "consume_all", "produce_all"]

SETTINGS = {"acks": "all", "linger.ms": "5"}
OF_SEVERAL_BROKERS = {"fetch.queue.backoff.ms": "10"}
"""How a consumer reads from several brokers. By default librdkafka stops to fetch a partition for a second when its
queue is full. Several brokers fill the queue faster than the client empties it, so a row would show these seconds."""


def produce_all(
    running: RunningPeer | RunningCluster,
    load: Load,
    topic: str,
    *,
    size_bytes: int,
    count: int,
    partitions: int = PARTITIONS,
    settings: Mapping[str, str] = SETTINGS,
) -> Mapping[str, float]:
    """Creates `topic`, fills it, and returns the speed. Does not delete the topic."""
    running.create_topic(topic, partitions)
    taken = load.programs.run(
        "produce",
        bootstrap=running.bootstrap_servers,
        topic=topic,
        settings=settings,
        partitions=partitions,
        size=size_bytes,
        count=count,
    )
    return _speed(taken)


def consume_all(
    running: RunningPeer | RunningCluster,
    load: Load,
    topic: str,
    *,
    count: int,
    settings: Mapping[str, str] | None = None,
) -> Mapping[str, float]:
    """Reads `topic`, which has at least `count` records, from its start, and returns the speed."""
    return _speed(
        load.programs.run(
            "consume",
            bootstrap=running.bootstrap_servers,
            topic=topic,
            settings=settings,
            partitions=PARTITIONS,
            count=count,
        )
    )


def _speed(taken: Mapping[str, float]) -> Mapping[str, float]:
    seconds = taken["seconds"]
    return {
        "megabytes_per_second": taken["bytes"] / seconds / 1e6,
        "records_per_second": taken["records"] / seconds,
        "client_cpu_share": taken["client_cpu_seconds"] / seconds,
    }

"""Throttled replication (KIP-73): what catches up and what does not while a quota is used up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from klamm.broker.replication.replication_metrics import replication_figures
from klamm.broker.server import BrokerServer
from klamm.testing import Cluster

SLOW, FAST = "slow", "fast"
SIDES = ("leader", "follower")
PATIENCE_S = 60.0
VALUE = b"x" * 10_000
VALUES = 60
RATE = 2000  # bytes per second: the records of a topic would take five minutes
ALL = {1, 2}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two brokers. Broker 1 leads two topics of two replicas; a request of a follower gets about one record."""
    config = {"min.insync.replicas": "1", "replica.fetch.max.bytes": "1000", "replica.fetch.wait.max.ms": "50"}
    with Cluster(2, replication_factor=2, config=config, session_timeout_ms=600) as running:
        topics = [NewTopic(topic, 1, replica_assignment=[[1, 2]]) for topic in (SLOW, FAST)]
        admin = _admin(running)
        for created in admin.create_topics(topics).values():
            created.result()
        yield running


def _admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


def _set(cluster: Cluster, kind: ResourceType, name: str, **values: str | None) -> None:
    """Sets configurations, or deletes those with None; underscores stand for dots."""
    entries = [
        ConfigEntry(
            key.replace("_", "."),
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in values.items()
    ]
    admin = _admin(cluster)
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result()


def _set_rate(cluster: Cluster, side: str, rate: int | None) -> None:
    for broker in (1, 2):
        value = None if rate is None else str(rate)
        _set(cluster, ResourceType.BROKER, str(broker), **{f"{side}_replication_throttled_rate": value})


def _produce(cluster: Cluster, topic: str, count: int = VALUES) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": 1, "log_level": 0})
    for _ in range(count):
        producer.produce(topic, VALUE)
        producer.flush(PATIENCE_S)  # a batch for each record


def _in_sync(cluster: Cluster, topic: str) -> set[int]:
    async def find(server: BrokerServer) -> set[int]:
        assert server.context is not None
        return set(server.context.metadata.image.topics[topic].partitions[0].isr)

    return cluster.run_in_broker(1, find)


def _wait(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _end(cluster: Cluster, broker: int, topic: str) -> int:
    async def find(server: BrokerServer) -> int:
        assert server.context is not None
        led = server.context.partitions.by_name[topic]
        log = server.context.partitions.unled.find(led, 0)
        return 0 if log is None else log.log_end_offset

    return cluster.run_in_broker(broker, find)


def _largest_lag(cluster: Cluster, broker: int) -> float:
    """Returns the metric `maxlag` of a broker."""

    async def gather(server: BrokerServer) -> float:
        assert server.context is not None
        replication = server.services.replication
        assert replication is not None
        figures = replication_figures(server.context.partitions, replication)
        return next(figure.values[0][1] for figure in figures if figure.name.endswith("_maxlag"))

    return cluster.run_in_broker(broker, gather)


@pytest.mark.parametrize("side", SIDES)
def test_throttled_partition_falls_behind_until_the_rate_is_raised(cluster: Cluster, side: str) -> None:
    """A follower comes back and is not in sync. The throttled partition gets some records and is not in sync when the
    other one has caught up. The metric `maxlag` counts the records that it lacks. A higher rate lets it catch up, while
    the configuration still names it."""
    broker = 1 if side == "leader" else 2
    _set(cluster, ResourceType.TOPIC, SLOW, **{f"{side}_replication_throttled_replicas": f"0:{broker}"})
    _set_rate(cluster, side, RATE)
    cluster.kill(2)
    _wait(lambda: _in_sync(cluster, SLOW) == _in_sync(cluster, FAST) == {1})
    for topic in (SLOW, FAST):
        _produce(cluster, topic)
    cluster.restart(2)
    _wait(lambda: _in_sync(cluster, FAST) == ALL)
    _wait(lambda: _end(cluster, 2, SLOW) > 0)
    assert _in_sync(cluster, SLOW) == {1}
    assert _end(cluster, 2, SLOW) < _end(cluster, 1, SLOW)
    _wait(lambda: 0 < _largest_lag(cluster, 2) == VALUES - _end(cluster, 2, SLOW))
    _set_rate(cluster, side, 1_000_000_000)
    _wait(lambda: _in_sync(cluster, SLOW) == ALL)
    _wait(lambda: _largest_lag(cluster, 2) == 0)


@pytest.mark.parametrize("side", SIDES)
def test_replica_that_is_in_sync_is_never_throttled(cluster: Cluster, side: str) -> None:
    """An in-sync replica copies all records at once, however low the rate is: a throttle must not shrink the in-sync
    replicas."""
    _wait(lambda: _in_sync(cluster, SLOW) == ALL)
    _set(cluster, ResourceType.TOPIC, SLOW, **{f"{side}_replication_throttled_replicas": "*"})
    _set_rate(cluster, side, 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for _ in range(VALUES):
        producer.produce(SLOW, VALUE)
        assert producer.flush(PATIENCE_S) == 0
    _wait(lambda: _end(cluster, 2, SLOW) == VALUES)
    assert _in_sync(cluster, SLOW) == ALL


def test_throttle_of_other_replicas_changes_nothing(cluster: Cluster) -> None:
    """A list that names another partition or another broker does not concern this replica; nor does a removed one."""
    _set(cluster, ResourceType.TOPIC, SLOW, leader_replication_throttled_replicas="1:1,0:2")
    _set(cluster, ResourceType.TOPIC, SLOW, follower_replication_throttled_replicas="0:1")
    for side in SIDES:
        _set_rate(cluster, side, 0)
    cluster.kill(2)
    _wait(lambda: _in_sync(cluster, SLOW) == {1})
    _produce(cluster, SLOW)
    cluster.restart(2)
    _wait(lambda: _in_sync(cluster, SLOW) == ALL)


def test_removed_throttle_lets_a_follower_catch_up(cluster: Cluster) -> None:
    """Without the topic's configuration the rate has no effect any more."""
    _set(cluster, ResourceType.TOPIC, SLOW, leader_replication_throttled_replicas="*")
    _set_rate(cluster, "leader", RATE)
    cluster.kill(2)
    _wait(lambda: _in_sync(cluster, SLOW) == {1})
    _produce(cluster, SLOW)
    cluster.restart(2)
    _wait(lambda: _end(cluster, 2, SLOW) > 0)
    assert _in_sync(cluster, SLOW) == {1}
    _set(cluster, ResourceType.TOPIC, SLOW, leader_replication_throttled_replicas=None)
    _wait(lambda: _in_sync(cluster, SLOW) == ALL)

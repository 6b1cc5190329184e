"""The clusters that play scripts: three brokers of klamm in this process, and three nodes of Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol

from tests.support.kafka_cluster import KafkaCluster

from klamm.errors import KlammError
from klamm.testing import Cluster

__all__ = ["BROKERS", "Brokers", "apache_kafka", "klamm"]

BROKERS: Final = (1, 2, 3)

# One partition of each internal topic, so that a script can decide which broker coordinates. No other topic is created
# and no leader moves unless a script requests it.
_CONFIG: Final = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "log.retention.ms": "-1",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
_RACKS: Final = ("a", "b", "c")


class Brokers(Protocol):
    """Three brokers."""

    def address(self, broker: int) -> str:
        """Returns `host:port` of a broker, which it keeps."""

    def kill(self, broker: int) -> None:
        """Ends a broker as a crash would."""

    def start(self, broker: int) -> None:
        """Starts a broker that was killed, with its data."""


class _Klamm:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def address(self, broker: int) -> str:
        return self._cluster.address_of(broker)

    def kill(self, broker: int) -> None:
        with suppress(KlammError):  # a broker that was unregistered has ended
            self._cluster.kill(broker)

    def start(self, broker: int) -> None:
        self._cluster.restart(broker)


class _ApacheKafka:
    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster

    def address(self, broker: int) -> str:
        return self._cluster.nodes[broker - 1].bootstrap_servers

    def kill(self, broker: int) -> None:
        self._cluster.nodes[broker - 1].kill()

    def start(self, broker: int) -> None:
        self._cluster.start_again(broker)


@contextmanager
def klamm() -> Iterator[Brokers]:
    """Runs three brokers of klamm in three racks, with three replicas of each internal topic."""
    with Cluster(
        brokers=len(BROKERS), config=_CONFIG, replication_factor=3, profile="default", racks=_RACKS
    ) as cluster:
        yield _Klamm(cluster)


@contextmanager
def apache_kafka() -> Iterator[Brokers]:
    """Runs three nodes of Apache Kafka in three racks. Raises KafkaUnavailable."""
    with KafkaCluster(transaction_version=2, overrides=_CONFIG, racks=_RACKS) as cluster:
        yield _ApacheKafka(cluster)

"""The metrics of replication, with the names that Prometheus' JMX exporter gives to Kafka's.

Source: the gauges of `ReplicaManager` and `AbstractFetcherManager` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from klamm.broker.partitions.role import Role
from klamm.broker.services.metrics.metrics import Figure

if TYPE_CHECKING:
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.broker.replication.replication_services import ReplicationServices

__all__ = ["replication_figures"]

_PREFIX: Final = "kafka_server_replicamanager_"


def replication_figures(partitions: PartitionRegistry, replication: ReplicationServices | None) -> Sequence[Figure]:
    """Returns the number of partitions with too few replicas or an unclean leader, and the largest lag of this broker's
    followers.

    `replication` is None for a single broker, which follows nothing.
    """
    leaders = under_replicated = under_minimum = 0
    for led in partitions.by_name.values():
        for partition in led.partitions:
            if partition is None or not partition.leads:
                continue
            leaders += 1
            under_replicated += len(partition.image.isr) < len(partition.image.replicas)
            under_minimum += partition.lacks_in_sync_replicas
    figures = [
        ("leadercount", "Partitions that this broker leads.", leaders),
        ("underreplicatedpartitions", "Of these, partitions with replicas that are not in sync.", under_replicated),
        ("underminisrpartitioncount", "Of these, partitions that refuse writes with acks=all.", under_minimum),
        ("offlinereplicacount", "Replicas on this broker whose log can't be used.", len(_offline(partitions))),
    ]
    lag = 0 if replication is None else replication.fetchers.largest_lag
    unclean = 0 if replication is None else replication.unclean_leaderships.count
    return [
        *(Figure(f"{_PREFIX}{name}", text, (), [((), float(value))]) for name, text, value in figures),
        Figure(
            "kafka_server_replicafetchermanager_maxlag",
            "The largest number of committed records that a follower on this broker lacks.",
            (),
            [((), float(lag))],
        ),
        Figure(
            "klamm_unclean_leaderships",
            "Partitions that this broker has begun to lead since its start although it may lack records.",
            (),
            [((), float(unclean))],
        ),
    ]


def _offline(partitions: PartitionRegistry) -> set[tuple[str, int]]:
    """Returns the partitions that this broker should lead or follow, and has no log of that can be used."""
    offline = {(led.name, index) for led in partitions.by_name.values() for index in led.failures}
    for topic, index in partitions.unled.offline_logs():
        if partitions.role(topic, index) not in (None, Role.NOT_HERE):
            offline.add((topic, index))
    return offline

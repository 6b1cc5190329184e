"""The settings with which the brokers of a new cluster are useful as they are."""

from __future__ import annotations

from typing import Final

__all__ = ["cluster_settings", "default_replication_factor"]

_REPLICAS: Final = 3
"""The usual number of replicas: one may be away for maintenance while another one fails."""
_INTERNAL_TOPICS: Final = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)


def default_replication_factor(brokers: int) -> int:
    """Returns the replication factor of a cluster for which none was chosen: three, or one for each broker."""
    return min(_REPLICAS, brokers)


def cluster_settings(brokers: int, replication_factor: int | None = None) -> dict[str, str]:
    """Returns the broker settings of a cluster with that number of brokers.

    With three replicas or more, `acks=all` needs two of them, as Kafka recommends: no acknowledged record is lost with
    one broker, and one broker that is away stops no producer. With fewer replicas both are not possible, and one is
    enough.
    """
    replicas = default_replication_factor(brokers) if replication_factor is None else replication_factor
    in_sync = 2 if replicas >= _REPLICAS else 1
    return {
        "default.replication.factor": str(replicas),
        **dict.fromkeys(_INTERNAL_TOPICS, str(replicas)),
        "min.insync.replicas": str(in_sync),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }

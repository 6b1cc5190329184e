"""The rules for the replicas of a topic, as the metadata say: who may lead, and how many must be in sync."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.metadata.image import MetadataImage, ResourceType, TopicImage
from klamm.metadata.replicas.partition_change import ReplicaRules
from klamm.protocol.types import BrokerId

__all__ = ["MIN_INSYNC_REPLICAS", "allows_unclean_election", "may_lead", "min_insync_replicas", "rules_of"]

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
_UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"


def may_lead(image: MetadataImage, broker_id: BrokerId) -> bool:
    """Returns whether a broker is live, and not about to stop (KIP-841)."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.is_stopping


def min_insync_replicas(image: MetadataImage, configs: Mapping[str, str]) -> int:
    """Returns `min.insync.replicas` for a topic with these overrides: its own, the cluster's default, or 1.

    No broker has a value of its own (KIP-966).
    """
    return int(configs.get(MIN_INSYNC_REPLICAS) or _of_cluster(image).get(MIN_INSYNC_REPLICAS) or 1)


def allows_unclean_election(image: MetadataImage, configs: Mapping[str, str], default: bool) -> bool:
    """Returns whether a replica that may lack committed records may lead a partition of a topic with these overrides.

    `default`: the value in the broker's static configuration.
    """
    value = configs.get(_UNCLEAN_ELECTION) or _of_cluster(image).get(_UNCLEAN_ELECTION)
    return default if value is None else value.strip().lower() == "true"


def rules_of(image: MetadataImage, topic: TopicImage, *, is_unclean_allowed: bool = False) -> ReplicaRules:
    """Returns the rules for all partitions of a topic. `is_unclean_allowed`: see `allows_unclean_election`."""
    return ReplicaRules(
        may_lead=lambda broker_id: may_lead(image, broker_id),
        min_insync_replicas=min_insync_replicas(image, topic.configs),
        is_unclean_allowed=allows_unclean_election(image, topic.configs, is_unclean_allowed),
    )


def _of_cluster(image: MetadataImage) -> Mapping[str, str]:
    return image.config_overrides(ResourceType.BROKER, "")

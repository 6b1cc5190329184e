"""The cluster features that this broker supports (KIP-584). Each is finalized at its highest level."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["FEATURES", "Feature", "why_no_level"]


class Feature(NamedTuple):
    """The lowest and the highest level of a feature that this broker supports."""

    min_version: int
    max_version: int


FEATURES: Final = {
    "metadata.version": Feature(7, 30),  # from 3.3-IV3, the oldest level that Kafka 4.x can read, to 4.3-IV0
    "group.version": Feature(0, 1),  # 1: the consumer protocol (KIP-848)
    "transaction.version": Feature(0, 2),  # 2: an epoch for each transaction, partitions added by brokers (KIP-890)
    "eligible.leader.replicas.version": Feature(0, 1),  # 1: min.insync.replicas is set for the cluster only (KIP-966)
    "kraft.version": Feature(0, 0),  # 0: the quorum of controllers can't be changed (KIP-853)
    "share.version": Feature(0, 0),  # 0: no share groups (KIP-932)
    "streams.version": Feature(0, 0),  # 0: no Streams groups (KIP-1071)
}


def why_no_level(name: str, level: int, node_id: int) -> str | None:
    """Returns why a feature can't be at a level (message of Kafka's `FeatureControlManager`); None if it can."""
    feature = FEATURES.get(name)
    if level < 0:
        return "A feature version cannot be less than 0."
    if feature is None:
        return f"Local controller {node_id} does not support this feature."
    if not feature.min_version <= level <= feature.max_version:
        return f"Local controller {node_id} only supports versions {feature.min_version}-{feature.max_version}"
    return None

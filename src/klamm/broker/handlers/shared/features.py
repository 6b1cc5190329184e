"""The cluster features that this broker supports (KIP-584).

Kafka's features are finalized at their highest level. klamm's own metadata version is a feature too, next to Kafka's
`metadata.version`, from which tools derive the version of Kafka. A single broker does not have it: its start raises the
version by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from klamm.metadata.metadata_version import LOWEST_OF_CLUSTERS, METADATA_VERSION, METADATA_VERSION_FEATURE

__all__ = ["FEATURES", "Feature", "finalized_levels", "supported_features", "why_no_level"]


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

_WITH_METADATA_VERSION: Final = {**FEATURES, METADATA_VERSION_FEATURE: Feature(LOWEST_OF_CLUSTERS, METADATA_VERSION)}


def supported_features(*, is_shared: bool) -> Mapping[str, Feature]:
    """Returns the features of a broker by name. `is_shared`: other brokers may use its metadata store."""
    return _WITH_METADATA_VERSION if is_shared else FEATURES


def finalized_levels(metadata_version: int, *, is_shared: bool) -> dict[str, int]:
    """Returns the levels of the features that are finalized: those of level 0 are not, as in Kafka."""
    levels = {name: highest for name, (_, highest) in FEATURES.items() if highest}
    if is_shared:
        levels[METADATA_VERSION_FEATURE] = metadata_version
    return levels


def why_no_level(name: str, level: int, node_id: int, *, is_shared: bool) -> str | None:
    """Returns why a feature can't be at a level (message of Kafka's `FeatureControlManager`); None if it can."""
    feature = supported_features(is_shared=is_shared).get(name)
    if level < 0:
        return "A feature version cannot be less than 0."
    if feature is None:
        return f"Local controller {node_id} does not support this feature."
    if not feature.min_version <= level <= feature.max_version:
        return f"Local controller {node_id} only supports versions {feature.min_version}-{feature.max_version}"
    return None

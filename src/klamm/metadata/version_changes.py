"""Decides when a metadata store gets a higher metadata version (see `metadata_version`).

Kafka's counterpart is `FeatureControlManager`, which also asks all brokers what they know.
"""

from __future__ import annotations

from klamm.metadata.entries import broker_key, put_features, put_topic
from klamm.metadata.image import MetadataImage
from klamm.metadata.metadata_store import Change, Plan
from klamm.metadata.metadata_version import METADATA_VERSION, METADATA_VERSION_FEATURE
from klamm.protocol.errors import ErrorCode, KafkaError

__all__ = ["plan_version", "raising"]


def plan_version(image: MetadataImage, version: int) -> Plan[None]:
    """Raises the version of the store; the present version changes nothing.

    All live brokers must know the version. A registered broker that does not run may have an earlier program: this
    program refuses the store at its next start. The plan depends on all registrations, so that no broker starts with an
    earlier version meanwhile. Raises INVALID_UPDATE_VERSION with the reason.
    """
    if version > METADATA_VERSION:
        raise _refused(version, f"This broker knows versions up to {METADATA_VERSION}.")
    if version < image.metadata_version:
        raise _refused(version, f"The version is {image.metadata_version}, and can't be lowered.")
    if version == image.metadata_version:
        return Plan(None)
    early = sorted(broker.id for broker in image.brokers.values() if broker.metadata_version < version)
    if early:
        names = ", ".join(map(str, early))
        raise _refused(version, f"It is not known to all brokers: start a later version of klamm on broker(s) {names}.")
    return Plan(None, raising(image, version), [broker_key(broker_id) for broker_id in sorted(image.registrations)])


def raising(image: MetadataImage, version: int) -> list[Change]:
    """Returns the changes that raise the version of a store."""
    # Version 0 does not count the partitions of a topic.
    counts = [put_topic(topic) for topic in image.topics.values()] if image.metadata_version == 0 else []
    return [*counts, put_features(version)]


def _refused(version: int, reason: str) -> KafkaError:
    # The beginning is that of Kafka's `FeatureControlManager`.
    message = f"Invalid update version {version} for feature {METADATA_VERSION_FEATURE}. {reason}"
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, message)

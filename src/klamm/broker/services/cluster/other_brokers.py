"""Refuses the start of a single broker whose metadata give partitions to other brokers: their data would be away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import TYPE_CHECKING

from klamm.errors import KlammError

if TYPE_CHECKING:
    from klamm.metadata.image import MetadataImage

__all__ = ["refuse_other_brokers"]


def refuse_other_brokers(image: MetadataImage, started: Container[int]) -> None:
    """Refuses to start only these brokers if others have partitions. Raises KlammError."""
    if all(broker in started for broker in image.registrations):
        return  # no look at all partitions
    counts = Counter(
        replica for topic in image.topics.values() for each in topic.partitions for replica in each.replicas
    )
    others = {broker: count for broker, count in sorted(counts.items()) if broker not in started}
    if others:
        told = ", ".join(f"broker {broker} has {count} partitions" for broker, count in others.items())
        raise KlammError(
            f"{told}, which this broker does not find in its data directory. Nothing was changed: start klamm with the "
            f"node.id and the folders of the last start"
        )

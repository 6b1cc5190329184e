"""The coordinators' view of the metadata image: topics, with the facts that assignments depend on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

from klamm.core.coordinator.cluster_topics import ClusterTopics, TopicChanges, TopicFacts
from klamm.core.coordinator.topic_hash import topic_hash
from klamm.metadata.image import MetadataImage, TopicImage
from klamm.protocol.types import BrokerId, TopicId

__all__ = ["ImageTopics"]


_SPARE_FACTS: Final = 1000
"""Facts of deleted topics are removed once the cache has this many more entries than the image has topics."""


class ImageTopics:
    """The topics of one image; the facts of a topic are computed at the first request, and cached.

    `earlier` is the previous image's object. Facts of unchanged topics are reused as the same objects, without a copy:
    both objects share one cache, in which each entry stores facts together with their topic.
    """

    def __init__(self, image: MetadataImage, earlier: ImageTopics | None = None) -> None:
        self._image = image
        self._facts: dict[TopicId, tuple[TopicImage, TopicFacts]] = {}
        self._changes: tuple[MetadataImage, TopicChanges] | None = None
        if earlier is not None and earlier._racks == self._racks:
            self._facts = earlier._facts
            if len(self._facts) > len(image.topics) + _SPARE_FACTS:
                self._forget_others()

    @property
    def version(self) -> int:
        """The image's revision."""
        return self._image.revision

    def by_name(self, name: str) -> TopicFacts | None:
        """Returns the facts of the topic with that name."""
        topic = self._image.topics.get(name)
        return None if topic is None else self._facts_of(topic)

    def by_id(self, topic_id: TopicId) -> TopicFacts | None:
        """Returns the facts of the topic with that id."""
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else self._facts_of(topic)

    def names(self) -> Iterable[str]:
        """Returns the names of all topics."""
        return self._image.topics.keys()

    def changes_since(self, earlier: ClusterTopics) -> TopicChanges:
        """Returns the topics that changed since `earlier`; cached for callers with the same `earlier`."""
        if not isinstance(earlier, ImageTopics):
            return TopicChanges(
                frozenset(earlier.names()) | self._image.topics.keys(), has_new=bool(self._image.topics)
            )
        known = self._changes
        if known is None or known[0] is not earlier._image:
            known = self._changes = (earlier._image, self._compare_with(earlier))
        return known[1]

    def _compare_with(self, earlier: ImageTopics) -> TopicChanges:
        before, now = earlier._image.topics, self._image.topics
        new = now.keys() - before.keys()
        if earlier._racks != self._racks:
            return TopicChanges(before.keys() | now.keys(), bool(new))
        changed = {name for name, topic in before.items() if now.get(name) is not topic}
        return TopicChanges(changed | new, bool(new))

    def _forget_others(self) -> None:
        present = self._image.topics_by_id
        self._facts = {topic_id: known for topic_id, known in self._facts.items() if topic_id in present}

    def _facts_of(self, topic: TopicImage) -> TopicFacts:
        known = self._facts.get(topic.topic_id)
        if known is not None and known[0] is topic:
            return known[1]
        racks = self._racks_of(topic)
        facts = TopicFacts(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_count=len(topic.partitions),
            racks=tuple(map(frozenset, racks)),
            hash=topic_hash(topic.name, topic.topic_id, len(topic.partitions), racks),
        )
        self._facts[topic.topic_id] = (topic, facts)
        return facts

    @cached_property
    def _racks(self) -> dict[BrokerId, str]:
        # Brokers that are not live count, too: otherwise the stop of a broker would let its groups rebalance.
        return {broker.id: broker.rack for broker in self._image.registrations.values() if broker.rack}

    def _racks_of(self, topic: TopicImage) -> Sequence[Sequence[str]]:
        """Returns the rack of each replica that has one, by partition; empty if no broker has a rack."""
        rack_of = self._racks
        if not rack_of:
            return ()
        return [
            [rack_of[replica] for replica in partition.replicas if replica in rack_of] for partition in topic.partitions
        ]

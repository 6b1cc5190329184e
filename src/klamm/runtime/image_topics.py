"""The metadata image as coordinators see it: topics, with what a change of them would mean for assignments."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from klamm.core.coordinator.cluster_topics import TopicFacts
from klamm.core.coordinator.topic_hash import topic_hash
from klamm.metadata.image import MetadataImage, TopicImage
from klamm.protocol.types import BrokerId, TopicId

__all__ = ["ImageTopics"]


class ImageTopics:
    """The topics of one image; facts are worked out when somebody asks, once.

    `earlier` is the picture before: facts of topics that did not change are taken over, as the same objects.
    """

    def __init__(self, image: MetadataImage, earlier: ImageTopics | None = None) -> None:
        self._image = image
        self._facts: dict[TopicId, TopicFacts] = {}
        if earlier is not None and earlier._racks == self._racks:
            before = earlier._image.topics_by_id
            for topic_id, facts in earlier._facts.items():
                if image.topics_by_id.get(topic_id) is before[topic_id]:
                    self._facts[topic_id] = facts

    @property
    def version(self) -> int:
        """The image's revision."""
        return self._image.revision

    def by_name(self, name: str) -> TopicFacts | None:
        """The topic of that name."""
        topic = self._image.topics.get(name)
        return None if topic is None else self._facts_of(topic)

    def by_id(self, topic_id: TopicId) -> TopicFacts | None:
        """The topic of that id."""
        topic = self._image.topics_by_id.get(topic_id)
        return None if topic is None else self._facts_of(topic)

    def names(self) -> Iterable[str]:
        """The names of all topics."""
        return self._image.topics.keys()

    def _facts_of(self, topic: TopicImage) -> TopicFacts:
        facts = self._facts.get(topic.topic_id)
        if facts is None:
            racks = self._racks_of(topic)
            facts = self._facts[topic.topic_id] = TopicFacts(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_count=len(topic.partitions),
                racks=racks,
                hash=topic_hash(topic.name, topic.topic_id, len(topic.partitions), racks),
            )
        return facts

    @cached_property
    def _racks(self) -> dict[BrokerId, str]:
        return {broker.id: broker.rack for broker in self._image.brokers.values() if broker.rack}

    def _racks_of(self, topic: TopicImage) -> tuple[frozenset[str], ...]:
        rack_of = self._racks
        if not rack_of:
            return ()
        return tuple(
            frozenset(rack_of[replica] for replica in partition.replicas if replica in rack_of)
            for partition in topic.partitions
        )

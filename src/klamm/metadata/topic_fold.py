"""Applies the entries of topics and partitions to an image.

A partition exists if its topic's entry exists and counts it. The entries of one decision may arrive in several
commits: partitions without a topic, or beyond its count, are kept in `MetadataImage.parts` until the topic's entry
arrives.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from klamm.metadata.image import NO_BROKER, MetadataImage, PartitionImage, TopicImage
from klamm.metadata.metadata_store import Versioned
from klamm.metadata.topic_name import collision_key
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

__all__ = ["TopicFold"]

Entries: TypeAlias = Sequence[tuple[str, Versioned | None]]
Partitions: TypeAlias = dict[PartitionIndex, PartitionImage]


class TopicFold:
    """The image's views of its topics while a commit is applied. A view is copied if the commit changes it."""

    def __init__(self, image: MetadataImage) -> None:
        self.by_name = image.topics
        self.by_id = image.topics_by_id
        self.names = image.names_by_collision_key
        self.parts = image.parts
        self.changes_configs = False
        """Whether the commit changes the overrides of a topic that exists."""
        self._topics: dict[TopicId, TopicImage] = {}
        """The topics that the commit changes, without their partitions."""
        self._counts: dict[TopicId, int | None] = {}
        """The number of partitions of the changed topics. None: all that there are, as in stores of version 0."""
        self._partitions: dict[TopicId, Partitions] = {}
        """All partitions of the changed topics, and of topics that do not exist."""

    def apply(self, topics: Entries, partitions: Entries) -> None:
        """Applies the entries of one commit, in any order."""
        if not topics and not partitions:
            return
        removed = [self.names[key] for key, entry in topics if entry is None and key in self.names]
        by_name, by_id, names = dict(self.by_name), dict(self.by_id), dict(self.names)
        self.by_name, self.by_id, self.names = by_name, by_id, names
        for key, entry in topics:
            if entry is not None:
                body = json.loads(entry.value)
                topic = TopicImage(body["name"], _topic_id(body["id"]), (), body["configs"])
                # The name may have belonged to another topic, which was deleted and created again meanwhile.
                if key in names and by_name[names[key]].topic_id != topic.topic_id:
                    removed.append(names[key])
                elif key in names and by_name[names[key]].configs != topic.configs:
                    self.changes_configs = True
                self._load(topic.topic_id)
                self._topics[topic.topic_id], self._counts[topic.topic_id] = topic, body.get("partitions")
        for name in removed:
            topic = by_name.pop(name)
            self._load(topic.topic_id)
            del by_id[topic.topic_id], names[collision_key(name)]
            self._topics.pop(topic.topic_id, None)
        self._change_partitions(partitions)
        for topic_id, topic in self._topics.items():
            present = self._partitions[topic_id]
            count = self._counts[topic_id]
            indexes = range(len(present) if count is None else count)
            # A store that lacks a partition which the topic counts is damaged: this fails with a KeyError.
            ordered = tuple(present.pop(PartitionIndex(index)) for index in indexes)
            by_name[topic.name] = by_id[topic_id] = TopicImage(topic.name, topic_id, ordered, topic.configs)
            names[collision_key(topic.name)] = topic.name
        self._keep_parts()

    def _load(self, topic_id: TopicId) -> Partitions:
        """Returns all partitions of the topic, to be changed."""
        known = self._partitions.get(topic_id)
        if known is None:
            known = self._partitions[topic_id] = dict(self.parts.get(topic_id, ()))
            topic = self.by_id.get(topic_id)
            if topic is not None:
                known.update((partition.index, partition) for partition in topic.partitions)
                self._topics[topic_id], self._counts[topic_id] = topic, len(topic.partitions)
        return known

    def _change_partitions(self, entries: Entries) -> None:
        texts: dict[str, Partitions] = {}
        for path, entry in entries:
            text, _, index = path.partition("/")
            partitions = texts.get(text)
            if partitions is None:
                partitions = texts[text] = self._load(_topic_id(text))
            if entry is None:
                partitions.pop(PartitionIndex(int(index)), None)
            else:
                partition = _partition(int(index), entry.value)
                partitions[partition.index] = partition

    def _keep_parts(self) -> None:
        if any(self._partitions.values()) or not self._partitions.keys().isdisjoint(self.parts):
            parts: dict[TopicId, Mapping[PartitionIndex, PartitionImage]] = dict(self.parts)
            for topic_id, rest in self._partitions.items():
                parts.pop(topic_id, None)
                if rest:
                    parts[topic_id] = dict(sorted(rest.items()))
            self.parts = parts


def _topic_id(text: str) -> TopicId:
    return TopicId(base64.urlsafe_b64decode(text + "=="))


@lru_cache(maxsize=4096)
def _partition(index: int, value: bytes) -> PartitionImage:
    body = json.loads(value)
    return PartitionImage(
        PartitionIndex(index),
        BrokerId(body["leader"]),
        LeaderEpoch(body["epoch"]),
        tuple(body["replicas"]),
        tuple(body["isr"]),
        body.get("partitionEpoch", 0),
        tuple(body.get("elr", ())),
        BrokerId(body.get("lastKnownLeader", NO_BROKER)),
        tuple(body.get("adding", ())),
        tuple(body.get("removing", ())),
        body.get("recovering", False),
    )

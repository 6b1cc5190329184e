"""Topics that are created, grow and are deleted, and the offsets of the records in them.

Of a record only its offset is modelled: a partition is its end offset, all below is acknowledged and committed.
"""

from __future__ import annotations

from tests.simulation.loop import EventLoop

from klamm.core.group.partition_traffic import PartitionTraffic, Traffic
from klamm.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicId

__all__ = ["DataPartition", "Topics"]

DataPartition = tuple[TopicId, int]
"""A partition of data; a topic that is created anew under an old name is another topic."""


class Topics:
    """What the metadata store agrees on, and the data logs."""

    def __init__(self, loop: EventLoop, racks: dict[int, str | None]) -> None:
        self._loop = loop
        self._racks = racks
        brokers = {
            BrokerId(each): BrokerImage(BrokerId(each), f"broker-{each}", 9092, rack, 1) for each, rack in racks.items()
        }
        self.image = MetadataImage(brokers=brokers)
        self.end_offsets: dict[DataPartition, int] = {}
        self._produced: dict[DataPartition, int] = {}

    def create(self, name: str, partitions: int) -> None:
        """A new topic."""
        topic_id = TopicId(self._loop.random.getrandbits(128).to_bytes(16, "big"))
        self._replace(TopicImage(name, topic_id, self._partitions(0, partitions)))

    def grow(self, name: str, by: int) -> None:
        """More partitions."""
        topic = self.image.topics[name]
        count = len(topic.partitions)
        self._replace(TopicImage(name, topic.topic_id, topic.partitions + self._partitions(count, count + by)))

    def delete(self, name: str) -> None:
        """No topic of that name any more."""
        topics = dict(self.image.topics)
        gone = topics.pop(name)
        self._install(topics)
        for index in range(len(gone.partitions)):
            del self.end_offsets[gone.topic_id, index]

    def end_offset(self, partition: DataPartition) -> int:
        """How many records the partition has; none if it is gone."""
        return self.end_offsets.get(partition, 0)

    def produce(self) -> None:
        """A few records for some partition: for those that came first rather than for others."""
        if self.end_offsets:
            partitions = list(self.end_offsets)
            partition = partitions[int(self._loop.random.random() ** 2 * len(partitions))]
            count = self._loop.between(1, 20)
            self.end_offsets[partition] += count
            self._produced[partition] = self._produced.get(partition, 0) + count

    def traffic(self, since_ms: int) -> Traffic:
        """What flows through all partitions, measured over the time since this was asked last."""
        produced, self._produced = self._produced, {}
        traffic = {}
        for topic in self.image.topics.values():
            keys = [(topic.topic_id, partition.index) for partition in topic.partitions]
            traffic[topic.name] = [
                PartitionTraffic(Offset(0), Offset(self.end_offsets[key]), produced.get(key, 0) * 1000 / since_ms)
                for key in keys
            ]
        return traffic

    def _replace(self, topic: TopicImage) -> None:
        for partition in topic.partitions:
            self.end_offsets.setdefault((topic.topic_id, partition.index), 0)
        self._install({**self.image.topics, topic.name: topic})

    def _install(self, topics: dict[str, TopicImage]) -> None:
        self.image = MetadataImage(
            revision=self.image.revision + 1,
            topics=topics,
            topics_by_id={topic.topic_id: topic for topic in topics.values()},
            brokers=self.image.brokers,
        )

    def _partitions(self, start: int, end: int) -> tuple[PartitionImage, ...]:
        brokers = sorted(self._racks)
        return tuple(
            PartitionImage(
                PartitionIndex(index),
                BrokerId(brokers[index % len(brokers)]),
                LeaderEpoch(0),
                tuple(BrokerId(brokers[(index + step) % len(brokers)]) for step in range(min(2, len(brokers)))),
                (),
            )
            for index in range(start, end)
        )

"""Topics that are created, grow and are deleted, and the offsets of their records.

Of a record only its offset is modelled. A partition is its end offset; all records below it are acknowledged and
committed.
"""

from __future__ import annotations

from tests.simulation.loop import EventLoop

from klamm.core.group.partition_traffic import PartitionTraffic, Traffic
from klamm.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicId

__all__ = ["DataPartition", "Topics"]

DataPartition = tuple[TopicId, int]
"""A partition of a topic with data. A topic that is created again under an old name is another topic."""


class Topics:
    """The topics in the metadata store, and the end offsets of their partitions."""

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
        """Creates a topic."""
        topic_id = TopicId(self._loop.random.getrandbits(128).to_bytes(16, "big"))
        self._replace(TopicImage(name, topic_id, self._partitions(0, partitions)))

    def grow(self, name: str, by: int) -> None:
        """Adds partitions to a topic."""
        topic = self.image.topics[name]
        count = len(topic.partitions)
        self._replace(TopicImage(name, topic.topic_id, topic.partitions + self._partitions(count, count + by)))

    def delete(self, name: str) -> None:
        """Deletes a topic."""
        topics = dict(self.image.topics)
        gone = topics.pop(name)
        self._install(topics)
        for index in range(len(gone.partitions)):
            del self.end_offsets[gone.topic_id, index]

    def end_offset(self, partition: DataPartition) -> int:
        """Returns the end offset of the partition; 0 if it is deleted."""
        return self.end_offsets.get(partition, 0)

    def produce(self) -> None:
        """Produces a few records to a random partition; older partitions are more likely."""
        if self.end_offsets:
            partitions = list(self.end_offsets)
            partition = partitions[int(self._loop.random.random() ** 2 * len(partitions))]
            count = self._loop.between(1, 20)
            self.end_offsets[partition] += count
            self._produced[partition] = self._produced.get(partition, 0) + count

    def traffic(self, since_ms: int) -> Traffic:
        """Returns the traffic of all partitions since the last call, which was `since_ms` ago."""
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

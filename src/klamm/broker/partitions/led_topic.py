"""One topic as this broker serves it: the partitions that it leads, and where the other ones are led."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.partitions.role import Role, refusal, role_in
from klamm.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.metadata.image import TopicImage
    from klamm.protocol.types import BrokerId, LeaderEpoch

__all__ = ["LedTopic"]


class LedTopic:
    """The partitions of one topic, by index; None for a partition that this broker does not lead."""

    __slots__ = ("_node_id", "failures", "image", "is_dropped", "is_internal", "name", "partitions", "topic_id")

    def __init__(self, image: TopicImage, node_id: BrokerId) -> None:
        self._node_id = node_id
        self.name = image.name
        self.topic_id = image.topic_id
        self.is_internal = image.is_internal
        self.is_dropped = False
        """Whether the topic was deleted; later steps delete its logs."""
        self.image = image
        self.partitions: list[Partition | None] = []
        self.failures: dict[int, str] = {}
        """By index, why a partition that this broker should lead or follow has no log: a full disk, for example."""
        self.follow(image)

    def follow(self, image: TopicImage) -> list[Partition]:
        """Takes over a new image, and returns the partitions from which this broker resigns by it."""
        self.image = image
        # Keep a placeholder, so that clients retry a partition that is still loading instead of treating it as unknown.
        self.partitions += [None] * (len(image.partitions) - len(self.partitions))
        resigned = []
        for each in image.partitions:
            if each.leader == self._node_id:
                continue
            self.failures.pop(each.index, None)
            partition = self.partitions[each.index]
            if partition is not None:
                self.partitions[each.index] = None
                partition.resign()
                resigned.append(partition)
        return resigned

    def get(self, index: int, current_leader_epoch: int = -1) -> Partition:
        """Returns the partition of that index.

        Raises KafkaError UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, or KAFKA_STORAGE_ERROR if its log could
        not be created. A replica that does not lead compares `current_leader_epoch` first (see `role.refusal`); the
        caller compares it with the partition that is returned.
        """
        if not 0 <= index < len(self.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{self.name} has no partition {index}")
        partition = self.partitions[index]
        if partition is None:
            image = self.image.partitions[index]
            if index in self.failures and image.leader == self._node_id:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.failures[index])
            raise refusal(f"{self.name}-{index}", image, self._node_id, current_leader_epoch)
        return partition

    def holds(self, partition: Partition) -> bool:
        """Returns whether this broker leads the partition as one of this topic. A partition of a deleted topic of the
        same name may not have resigned yet."""
        return partition in self.partitions[partition.index : partition.index + 1]

    def may_be_outdated(self, index: int) -> bool:
        """Returns whether another broker may lead a partition that this one leads, because its session with the
        metadata store may have ended."""
        partition = self.partitions[index]
        return partition is not None and partition.may_commit is not None and not partition.may_commit()

    def role(self, index: int) -> Role:
        """Returns the role of this broker in an existing partition."""
        partition = self.partitions[index]
        if index in self.failures or (partition is not None and partition.log.is_offline):
            return Role.OFFLINE
        return role_in(self.image.partitions[index], self._node_id)

    def leader(self, index: int) -> tuple[BrokerId, LeaderEpoch] | None:
        """Returns the leader and leader epoch of a partition; None if the topic has no such partition."""
        if not 0 <= index < len(self.image.partitions):
            return None
        image = self.image.partitions[index]
        return image.leader, image.leader_epoch

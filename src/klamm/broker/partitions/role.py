"""The role of this broker in a partition, and the errors that follow from it.

Source: `ReplicaManager.getPartitionOrError` and `Partition.getLocalLog` of Apache Kafka 4.0.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from klamm.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from klamm.metadata.image import PartitionImage
    from klamm.protocol.types import BrokerId

__all__ = ["Role", "refusal", "role_in", "wrong_leader_epoch"]


class Role(Enum):
    """The part that this broker has in a partition."""

    LEADER = "leader"
    FOLLOWER = "follower"
    """Another broker leads, or none; this broker is one of the replicas."""
    OFFLINE = "offline"
    """This broker should lead, but its log is missing or cannot be used."""
    NOT_HERE = "not here"
    """This broker is no replica. It may still have a folder of the partition, from an earlier assignment."""


def role_in(image: PartitionImage, node_id: BrokerId) -> Role:
    """Returns the role that the metadata give to the broker: every role except OFFLINE, which only the broker knows."""
    if image.leader == node_id:
        return Role.LEADER
    return Role.FOLLOWER if node_id in image.replicas else Role.NOT_HERE


def refusal(name: str, image: PartitionImage, node_id: BrokerId, current_leader_epoch: int = -1) -> KafkaError:
    """Returns the error for a request to a broker that does not lead the existing partition.

    As in Kafka, a replica first compares the client's leader epoch (-1: the client sends none). A broker that is no
    replica knows no epoch, and answers NOT_LEADER_OR_FOLLOWER, so that the client refreshes its metadata.
    """
    if current_leader_epoch not in (-1, image.leader_epoch) and role_in(image, node_id) is Role.FOLLOWER:
        return wrong_leader_epoch(name, current_leader_epoch, image.leader_epoch)
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker does not lead {name}")


def wrong_leader_epoch(name: str, current_leader_epoch: int, leader_epoch: int) -> KafkaError:
    """Returns FENCED_LEADER_EPOCH for a client whose leader epoch is over, UNKNOWN_LEADER_EPOCH for one that is newer
    than the broker's (KIP-320)."""
    if current_leader_epoch < leader_epoch:
        return KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"{name}: leader epoch {current_leader_epoch} is over, it is {leader_epoch}",
        )
    return KafkaError(
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        f"{name}: leader epoch {current_leader_epoch} is not known yet, it is {leader_epoch}",
    )

"""Decides reassignments: the replicas of a partition move to other brokers, or their number changes (KIP-455).

The added replicas follow first. When all of them are in sync, the others are removed, by the change of the in-sync
replicas that says so. A smaller number of replicas begins when all that remain are in sync (see `change_partition`).

The checks and messages are those of `ReplicationControlManager.alterPartitionReassignment` of Apache Kafka 4.3, and of
`PartitionReassignmentReplicas`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from klamm.metadata.cordoned import is_cordoned
from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
from klamm.metadata.metadata_store import Planning
from klamm.metadata.metadata_version import FIRST_VERSION_WITH_FOLLOWERS, HOW_TO_RAISE
from klamm.metadata.replicas.partition_change import change_partition
from klamm.metadata.replicas.partition_changes import PartitionChanges
from klamm.metadata.replicas.replica_rules import rules_of
from klamm.metadata.topic_name import shortened
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId

__all__ = ["Reassignment", "plan_reassignments"]


class Reassignment(NamedTuple):
    """The brokers that a partition should have, the preferred leader first; None cancels a reassignment in progress."""

    topic: str
    index: int  # type: ignore[assignment]  # Kafka's name, and tuple.index has no use here
    replicas: Sequence[int] | None


def plan_reassignments(
    image: MetadataImage, wanted: Sequence[Reassignment], room: int, *, allows_other_factor: bool
) -> Planning[list[KafkaError | None]]:
    """Plans as many of the reassignments, in order, as one transaction of `room` keys can hold: one at least.

    The result has None for each that begins, ends or is cancelled, or the reason against it.
    """
    results: list[KafkaError | None] = []
    changes = PartitionChanges(image, room)
    for each in wanted:
        yield
        try:
            topic, partition = _find(image, each)
            changed = _reassigned(image, topic, partition, each, allows_other_factor)
        except KafkaError as error:
            results.append(error.with_traceback(None))
            continue
        if changed is not partition and not changes.add(topic, partition, changed):
            break
        results.append(None)
    return changes.plan(results)


def _find(image: MetadataImage, wanted: Reassignment) -> tuple[TopicImage, PartitionImage]:
    topic = image.topics.get(wanted.topic)
    if topic is None:
        reason = f"Unable to find a topic named {shortened(wanted.topic)}."
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
    if not 0 <= wanted.index < len(topic.partitions):
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {wanted.topic}:{wanted.index}."
        )
    return topic, topic.partitions[wanted.index]


def _reassigned(
    image: MetadataImage,
    topic: TopicImage,
    partition: PartitionImage,
    wanted: Reassignment,
    allows_other_factor: bool,
) -> PartitionImage:
    rules = rules_of(image, topic)
    if wanted.replicas is None:
        if not partition.adding and not partition.removing:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        kept = tuple(each for each in partition.replicas if each not in partition.adding)
        in_sync = tuple(each for each in partition.isr if each in kept)
        if not in_sync:
            reason = "Unable to revert partition assignment, because no replica of before is in sync."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        return change_partition(partition, rules, isr=in_sync, replicas=kept, adding=(), removing=())
    target = _checked(image, wanted.replicas, partition)
    current = tuple(each for each in partition.replicas if each not in partition.removing)
    if len(target) != len(current) and not allows_other_factor:
        reason = f"The replication factor is changed from {len(current)} to {len(target)}"
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    if target == partition.replicas and not partition.adding and not partition.removing:
        return partition
    if image.metadata_version < FIRST_VERSION_WITH_FOLLOWERS:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The cluster's metadata version {image.metadata_version} allows no reassignments. They need version "
            f"{FIRST_VERSION_WITH_FOLLOWERS}: {HOW_TO_RAISE}.",
        )
    removing = tuple(each for each in partition.replicas if each not in target)
    adding = tuple(each for each in target if each not in partition.isr and each not in current)
    adding += tuple(each for each in target if each in partition.adding and each not in adding)
    return change_partition(partition, rules, replicas=(*target, *removing), adding=adding, removing=removing)


def _checked(image: MetadataImage, replicas: Sequence[int], partition: PartitionImage) -> tuple[BrokerId, ...]:
    """Returns the brokers. Raises INVALID_REPLICA_ASSIGNMENT unless they are registered and differ.

    A cordoned broker is refused unless it has a replica already, so that other replicas of the partition can move.
    """
    prefix = "The manual partition assignment includes"
    if not replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{prefix} an empty replica list.")
    seen: set[int] = set()
    for replica in sorted(replicas):
        if replica not in image.registrations:
            reason = f"{prefix} broker {replica}, but no such broker is registered."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        if replica in seen:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{prefix} the broker {replica} more than once.")
        if replica not in partition.replicas and is_cordoned(image, BrokerId(replica)):
            reason = f"{prefix} broker {replica}, but all its log directories are cordoned."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
        seen.add(replica)
    return tuple(BrokerId(replica) for replica in replicas)

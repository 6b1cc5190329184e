"""Decides elections that a client requests: of the preferred leader, or of any replica that is left.

Source: `ReplicationControlManager.electLeader` of Apache Kafka 4.3 (KIP-183, KIP-460).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from klamm.metadata.image import NO_BROKER, MetadataImage
from klamm.metadata.metadata_store import Planning
from klamm.metadata.replicas.partition_change import Election, change_partition
from klamm.metadata.replicas.partition_changes import PartitionChanges
from klamm.metadata.replicas.replica_rules import rules_of
from klamm.metadata.topic_name import shortened
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition

__all__ = ["ElectionOutcome", "plan_elections"]

ElectionOutcome = tuple[ErrorCode, str | None]
"""The error code and the message for one partition."""

_NEEDLESS: ElectionOutcome = (ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
_NOT_AVAILABLE: Mapping[Election, ElectionOutcome] = {
    Election.PREFERRED: (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    Election.UNCLEAN: (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}


def plan_elections(
    image: MetadataImage, wanted: Sequence[TopicPartition], election: Election, room: int
) -> Planning[list[ElectionOutcome]]:
    """Plans as many of the elections, in order, as one transaction of `room` keys can hold: one at least.

    The result has the outcome of each that is decided. `election` is PREFERRED or UNCLEAN. A partition with one replica
    has no other leader to elect.
    """
    outcomes: list[ElectionOutcome] = []
    changes = PartitionChanges(image, room)
    for name, index in wanted:
        yield
        topic = image.topics.get(name)
        if topic is None:
            outcomes.append((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {shortened(name)}"))
            continue
        if not 0 <= index < len(topic.partitions):
            outcomes.append((ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"))
            continue
        partition = topic.partitions[index]
        preferred = partition.replicas[0]
        is_led = partition.leader in image.brokers
        if is_led and (election is Election.UNCLEAN or partition.leader == preferred):
            outcomes.append(_NEEDLESS)
            continue
        changed = partition
        if len(partition.replicas) > 1:
            changed = change_partition(partition, rules_of(image, topic), election=election)
        is_elected = changed.leader == preferred if election is Election.PREFERRED else changed.leader != NO_BROKER
        if changed is partition or not is_elected:
            outcomes.append(_NOT_AVAILABLE[election])
            continue
        if not changes.add(topic, partition, changed):
            break
        outcomes.append((ErrorCode.NONE, None))
    return changes.plan(outcomes)

"""The records of consumer groups, encoded from durable state and decoded into it.

Every value has version 0, the only one. After Apache Kafka's `GroupCoordinatorRecordHelpers` and
`ConsumerGroupMember.Builder.updateWith`.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import intern
from typing import Final, NamedTuple, cast

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.assignors.partition_order import in_order, ordered
from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.consumer.member import (
    NO_PARTITIONS,
    NO_TARGET,
    Assigned,
    ClassicMetadata,
    ConsumerGroupMember,
    Target,
)
from klamm.protocol.coordinator_records import encode_record_key, encode_record_value
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from klamm.protocol.schema.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from klamm.protocol.schema.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from klamm.protocol.schema.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from klamm.protocol.schema.consumer_group_metadata_key import ConsumerGroupMetadataKey
from klamm.protocol.schema.consumer_group_metadata_value import ConsumerGroupMetadataValue
from klamm.protocol.schema.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from klamm.protocol.schema.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from klamm.protocol.schema.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from klamm.protocol.schema.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from klamm.protocol.schema.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from klamm.protocol.schema.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from klamm.protocol.schema.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from klamm.protocol.types import Millis, PartitionIndex, TopicId

__all__ = [
    "ResolvedRegex",
    "current_assignment_record",
    "current_assignment_tombstone",
    "encode_record",
    "epoch_record",
    "epoch_tombstone",
    "legacy_metadata_tombstone",
    "member_record",
    "member_tombstone",
    "regex_record",
    "regex_tombstone",
    "resolved_regex",
    "target",
    "target_epoch_record",
    "target_epoch_tombstone",
    "target_record",
    "target_tombstone",
    "with_assignment",
    "with_metadata",
]

_VERSION: Final = 0


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matches."""

    topics: frozenset[str]
    version: int
    """The version of the cluster's topics in which they were found."""
    resolved_at_ms: Millis


# The group


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """Returns the record of a group's epoch and of the hash of its topics at that epoch."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id=group_id), value, _VERSION)


def epoch_tombstone(group_id: str) -> CoordinatorRecord:
    """Returns the record that removes a group."""
    return _tombstone(ConsumerGroupMetadataKey(group_id=group_id))


def legacy_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Returns the record that removes a group's topics as brokers before 4.1 wrote them."""
    return _tombstone(ConsumerGroupPartitionMetadataKey(group_id=group_id))


def target_epoch_record(group_id: str, epoch: int, assigned_at_ms: Millis) -> CoordinatorRecord:
    """Returns the record of the group epoch that the target assignment is for, and of when it was made."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=assigned_at_ms)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value, _VERSION)


def target_epoch_tombstone(group_id: str) -> CoordinatorRecord:
    """Returns the record that removes the epoch of a target assignment."""
    return _tombstone(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id))


# Members


def member_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    """Returns the record of a member's metadata, such as its identity and subscription."""
    classic = member.classic
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols],
        ),
    )
    key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value, _VERSION)


def member_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """Returns the record that removes a member."""
    return _tombstone(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id))


def with_metadata(member: ConsumerGroupMember, value: ConsumerGroupMemberMetadataValue) -> ConsumerGroupMember:
    """Returns the member with the metadata of the record."""
    classic = value.classic_member_metadata
    return member._replace(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=frozenset(map(intern, value.subscribed_topic_names)),
        subscribed_topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicMetadata(
            classic.session_timeout_ms, tuple((each.name, each.metadata) for each in classic.supported_protocols)
        ),
    )


def encode_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Returns key and value in the bytes of the log."""
    key, value = encode_record_key(record.key), record.value
    return key, None if value is None else encode_record_value(value, record.value_version)


def target_record(group_id: str, member_id: str, target: Target) -> CoordinatorRecord:
    """Returns the record of a member's part of the target, with partitions in the assignor's order."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=list(in_order(partitions)))
            for topic_id, partitions in target.items()
        ]
    )
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(key, value, _VERSION)


def target_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """Returns the record that removes a member's part of the target."""
    return _tombstone(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id))


def target(value: ConsumerGroupTargetAssignmentMemberValue) -> Target:
    """Returns a member's part of the target from its record."""
    topics = value.topic_partitions
    if not topics:
        return NO_TARGET
    # A cast, because converting each number is too slow: a target of thousands of members is replayed at once.
    return {TopicId(topic.topic_id): ordered(cast("list[PartitionIndex]", topic.partitions)) for topic in topics}


def current_assignment_record(group_id: str, member: ConsumerGroupMember) -> CoordinatorRecord:
    """Returns the record of a member's assignment and epoch."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        assigned_partitions=_topic_partitions(member.assigned),
        partitions_pending_revocation=_topic_partitions(member.pending_revocation),
    )
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value, _VERSION)


def current_assignment_tombstone(group_id: str, member_id: str) -> CoordinatorRecord:
    """Returns the record that removes a member's assignment."""
    return _tombstone(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id))


def with_assignment(
    member: ConsumerGroupMember, value: ConsumerGroupCurrentMemberAssignmentValue
) -> ConsumerGroupMember:
    """Returns the member with the assignment and epochs of the record."""
    return member._replace(
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState(value.state),
        assigned=_assigned(value.assigned_partitions, value.member_epoch),
        pending_revocation=_assigned(value.partitions_pending_revocation, value.member_epoch),
    )


# Regular expressions


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    """Returns the record of the topics that a regular expression matches."""
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.resolved_at_ms
    )
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return CoordinatorRecord(key, value, _VERSION)


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Returns the record that removes a regular expression that no member uses."""
    return _tombstone(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex))


def resolved_regex(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    """Returns the topics of a regular expression from its record."""
    return ResolvedRegex(frozenset(map(intern, value.topics)), value.version, Millis(value.timestamp))


def _tombstone(key: Message) -> CoordinatorRecord:
    return CoordinatorRecord(key, None, _VERSION)


def _topic_partitions(assigned: Assigned) -> list[TopicPartitions]:
    topics = []
    for topic_id in sorted(assigned):
        epochs = assigned[topic_id]
        partitions = sorted(epochs)
        topics.append(
            TopicPartitions(
                topic_id=topic_id,
                partitions=list(partitions),
                assignment_epochs=[epochs[partition] for partition in partitions],
            )
        )
    return topics


def _assigned(topics: Iterable[TopicPartitions], member_epoch: int) -> Assigned:
    if not topics:
        return NO_PARTITIONS
    # Before KIP-1251 no epochs were written, and a static member that has left has a negative epoch.
    default = max(member_epoch, 0)
    assigned: dict[TopicId, dict[PartitionIndex, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [default] * len(topic.partitions)
        assigned[TopicId(topic.topic_id)] = dict(zip(map(PartitionIndex, topic.partitions), epochs, strict=True))
    return assigned

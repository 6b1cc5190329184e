"""Encoded records of `__consumer_offsets` for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from klamm.protocol.consumer_protocol import encode_assignment, encode_subscription
from klamm.protocol.coordinator_records import encode_record_key, encode_record_value
from klamm.protocol.message import Message
from klamm.protocol.schema import (
    consumer_group_current_member_assignment_value as current_value,
)
from klamm.protocol.schema import (
    consumer_group_target_assignment_member_value as target_value,
)
from klamm.protocol.schema import consumer_protocol_assignment as assignment
from klamm.protocol.schema.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from klamm.protocol.schema.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from klamm.protocol.schema.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from klamm.protocol.schema.consumer_group_metadata_key import ConsumerGroupMetadataKey
from klamm.protocol.schema.consumer_group_metadata_value import ConsumerGroupMetadataValue
from klamm.protocol.schema.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from klamm.protocol.schema.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from klamm.protocol.schema.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue, MemberMetadata
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue

__all__ = ["GROUP", "TOPIC_IDS", "classic_group", "commit", "current", "epoch", "member", "record", "target", "targets"]

GROUP = "orders"
TOPIC_IDS: Mapping[str, bytes] = {"orders": bytes(15) + b"\1", "bills": bytes(15) + b"\2"}

Bytes = tuple[bytes, bytes | None]


def record(key: Message, value: Message | None, version: int | None = None) -> Bytes:
    """Returns a record; the value None gives a tombstone. The default version of the value is the highest one."""
    if value is None:
        return encode_record_key(key), None
    return encode_record_key(key), encode_record_value(value, value.VERSIONS[1] if version is None else version)


def commit(partition: int, offset: int | None, topic: str = "orders", group: str = GROUP) -> Bytes:
    """Returns an offset commit; the offset None gives a tombstone."""
    value = None if offset is None else OffsetCommitValue(offset=offset, metadata="", commit_timestamp=5_000)
    return record(OffsetCommitKey(group=group, topic=topic, partition=partition), value)


def classic_group(generation: int, members: Mapping[str, Mapping[str, list[int]]] | None, group: str = GROUP) -> Bytes:
    """Returns a classic group with its members' assignments; None gives a tombstone."""
    key = GroupMetadataKey(group=group)
    if members is None:
        return record(key, None)
    return record(
        key,
        GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol="range" if members else None,
            leader=next(iter(members), None),
            members=[
                MemberMetadata(
                    member_id=f"{name}-0",
                    client_id=name,
                    client_host="/10.0.0.1",
                    rebalance_timeout=60_000,
                    session_timeout=10_000,
                    subscription=encode_subscription(ConsumerProtocolSubscription(topics=["orders"])),
                    assignment=encode_assignment(
                        assignment.ConsumerProtocolAssignment(
                            assigned_partitions=[
                                assignment.TopicPartition(topic=topic, partitions=indexes)
                                for topic, indexes in partitions.items()
                            ]
                        )
                    ),
                )
                for name, partitions in members.items()
            ],
        ),
    )


def epoch(number: int | None) -> Bytes:
    """Returns the epoch of a consumer group."""
    value = None if number is None else ConsumerGroupMetadataValue(epoch=number)
    return record(ConsumerGroupMetadataKey(group_id=GROUP), value)


def member(name: str, *, is_gone: bool = False, **fields: Any) -> Bytes:
    """Returns a member of a consumer group."""
    given = {
        "client_id": name,
        "client_host": "/10.0.0.1",
        "subscribed_topic_names": ["orders"],
        "instance_id": None,
        "rack_id": None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "classic_member_metadata": None,
        "rebalance_timeout_ms": 300_000,
    }
    value = None if is_gone else ConsumerGroupMemberMetadataValue(**given | fields)
    return record(ConsumerGroupMemberMetadataKey(group_id=GROUP, member_id=f"{name}-0"), value)


def target(name: str, partitions: Mapping[str, list[int]] | None) -> Bytes:
    """Returns the target assignment of a member."""
    value = None
    if partitions is not None:
        value = target_value.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                target_value.TopicPartition(topic_id=TOPIC_IDS.get(topic, bytes(16)), partitions=indexes)
                for topic, indexes in partitions.items()
            ]
        )
    return record(ConsumerGroupTargetAssignmentMemberKey(group_id=GROUP, member_id=f"{name}-0"), value)


def targets(number: int | None) -> Bytes:
    """Returns the epoch of the target assignment."""
    value = None if number is None else ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=number)
    return record(ConsumerGroupTargetAssignmentMetadataKey(group_id=GROUP), value)


def current(
    name: str, number: int | None, assigned: list[int], pending: list[int] | None = None, state: int = 0
) -> Bytes:
    """Returns a member's partitions of the topic orders, assigned and pending revocation; the epoch None gives a
    tombstone."""

    def partitions(indexes: list[int]) -> Iterator[current_value.TopicPartitions]:
        if indexes:
            yield current_value.TopicPartitions(
                topic_id=TOPIC_IDS["orders"], partitions=indexes, assignment_epochs=None
            )

    value = None
    if number is not None:
        value = current_value.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=number,
            previous_member_epoch=number - 1,
            state=state,
            assigned_partitions=[*partitions(assigned)],
            partitions_pending_revocation=[*partitions(pending or [])],
        )
    return record(ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id=f"{name}-0"), value)

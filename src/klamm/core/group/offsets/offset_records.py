"""The records of groups and offsets, made from durable state and read back into it.

Written versions are Kafka's: OffsetCommitValue 4, or 1 when the client named an expiry time (only 1 can carry it);
GroupMetadataValue 3. After Apache Kafka's `GroupCoordinatorRecordHelpers`.
"""

from __future__ import annotations

from typing import Final

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.classic.group_metadata import GroupMetadata, MemberMetadata
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue
from klamm.protocol.schema.group_metadata_value import MemberMetadata as MemberMetadataValue
from klamm.protocol.schema.legacy_offset_commit_value import LegacyOffsetCommitValue
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import Generation, LeaderEpoch, Millis, Offset, PartitionIndex, TopicId

__all__ = [
    "committed_offset",
    "group_metadata",
    "group_metadata_record",
    "group_tombstone",
    "offset_commit_record",
    "offset_tombstone",
]

_GROUP_METADATA_VERSION: Final = 3
_OFFSET_COMMIT_VERSION: Final = 4
_OFFSET_COMMIT_VERSION_WITH_EXPIRY: Final = 1


def group_metadata_record(group_id: str, metadata: GroupMetadata) -> CoordinatorRecord:
    """The record that says what a group is."""
    timestamp = metadata.state_timestamp_ms
    value = GroupMetadataValue(
        protocol_type=metadata.protocol_type or "",
        generation=metadata.generation,
        protocol=metadata.protocol_name,
        leader=metadata.leader_id,
        current_state_timestamp=-1 if timestamp is None else timestamp,
        members=[
            MemberMetadataValue(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in metadata.members
        ],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value, _GROUP_METADATA_VERSION)


def group_metadata(value: GroupMetadataValue) -> GroupMetadata:
    """What a group is, as a record says."""
    timestamp = value.current_state_timestamp
    return GroupMetadata(
        generation=Generation(value.generation),
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader_id=value.leader,
        state_timestamp_ms=None if timestamp == -1 else Millis(timestamp),
        members=tuple(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=(
                    member.session_timeout if member.rebalance_timeout == -1 else member.rebalance_timeout
                ),
                session_timeout_ms=member.session_timeout,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in value.members
        ),
    )


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that says a group is gone."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None, _GROUP_METADATA_VERSION)


def offset_commit_record(
    group_id: str,
    topic: str,
    partition: PartitionIndex,
    *,
    offset: Offset,
    leader_epoch: LeaderEpoch,
    metadata: str,
    commit_timestamp_ms: Millis,
    expire_timestamp_ms: Millis | None,
    topic_id: TopicId,
) -> CoordinatorRecord:
    """The record that says what a group committed.

    A commit with an expiry time loses leader epoch and topic id, here and not only on the wire: memory must not know
    more than the log.
    """
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    if expire_timestamp_ms is None:
        value = OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp_ms,
            topic_id=topic_id,
        )
        return CoordinatorRecord(key, value, _OFFSET_COMMIT_VERSION)
    value = OffsetCommitValue(
        offset=offset,
        metadata=metadata,
        commit_timestamp=commit_timestamp_ms,
        expire_timestamp=expire_timestamp_ms,
    )
    return CoordinatorRecord(key, value, _OFFSET_COMMIT_VERSION_WITH_EXPIRY)


def committed_offset(record_offset: Offset, value: OffsetCommitValue | LegacyOffsetCommitValue) -> CommittedOffset:
    """What a group committed, as a record says.

    The legacy value is that of record type 0, which Kafka wrote long ago.
    """
    if isinstance(value, LegacyOffsetCommitValue):
        return CommittedOffset(
            Offset(value.offset),
            LeaderEpoch(-1),
            value.metadata,
            Millis(value.commit_timestamp),
            None,
            TopicId(ZERO_UUID),
            record_offset,
        )
    expire_timestamp = value.expire_timestamp
    return CommittedOffset(
        Offset(value.offset),
        LeaderEpoch(value.leader_epoch),
        value.metadata,
        Millis(value.commit_timestamp),
        None if expire_timestamp == -1 else Millis(expire_timestamp),
        TopicId(value.topic_id),
        record_offset,
    )


def offset_tombstone(group_id: str, topic: str, partition: PartitionIndex) -> CoordinatorRecord:
    """The record that says a group has no offset for the partition any more."""
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), None, _OFFSET_COMMIT_VERSION
    )

"""The durable state of a classic group and its GroupMetadata records.

After a load, the volatile state of a group (`classic_group.py`) starts from it. A new record is written when a
generation has its assignment. Values have the version that Kafka writes, GroupMetadataValue 3. After Apache Kafka's
`GroupCoordinatorRecordHelpers`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue
from klamm.protocol.schema.group_metadata_value import MemberMetadata as MemberMetadataValue
from klamm.protocol.types import Generation, Millis

__all__ = [
    "NO_METADATA",
    "GroupMetadata",
    "MemberMetadata",
    "group_metadata",
    "group_metadata_record",
    "group_tombstone",
]

_VERSION: Final = 3


class MemberMetadata(NamedTuple):
    """One member of the generation in the log."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the group's protocol; metadata for other protocols is not stored."""
    assignment: bytes


class GroupMetadata(NamedTuple):
    """A group as of its latest record. Without members it is empty; without a protocol type only its offsets matter."""

    generation: Generation
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: Millis | None
    """When the group entered the state in the record; None in records of very old brokers."""
    members: tuple[MemberMetadata, ...]


NO_METADATA: Final = GroupMetadata(Generation(0), None, None, None, None, ())
"""The state of a simple group, which has offsets but never had members, and so has no record."""


def group_metadata_record(group_id: str, metadata: GroupMetadata) -> CoordinatorRecord:
    """Returns the record of the group's state."""
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
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value, _VERSION)


def group_metadata(value: GroupMetadataValue) -> GroupMetadata:
    """Returns the group's state from its record."""
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
    """Returns the record that removes the group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None, _VERSION)

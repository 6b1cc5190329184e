"""The replay of consumer group records, by type: the only place where a consumer group changes.

Compaction and the expiry of tombstones may drop any part of a group's history but keep the order. A tombstone for
something that does not exist does nothing. After Apache Kafka's `GroupMetadataManager.replay` for consumer groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_group_records import resolved_regex, target, with_assignment, with_metadata
from klamm.core.group.consumer.member import LEAVING_EPOCH, NO_PARTITIONS, ConsumerGroupMember
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from klamm.protocol.schema.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from klamm.protocol.schema.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from klamm.protocol.schema.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from klamm.protocol.schema.consumer_group_metadata_key import ConsumerGroupMetadataKey
from klamm.protocol.schema.consumer_group_metadata_value import ConsumerGroupMetadataValue
from klamm.protocol.schema.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from klamm.protocol.schema.consumer_group_partition_metadata_value import ConsumerGroupPartitionMetadataValue
from klamm.protocol.schema.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from klamm.protocol.schema.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from klamm.protocol.schema.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from klamm.protocol.schema.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from klamm.protocol.schema.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from klamm.protocol.schema.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from klamm.protocol.types import Millis

__all__ = ["REPLAY"]


def _replay_epoch(group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue) -> None:
    group.set_epoch(value.epoch, value.metadata_hash)


def _replay_legacy_metadata(
    group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: ConsumerGroupPartitionMetadataValue | None
) -> None:
    group.has_legacy_metadata = value is not None


def _replay_member(
    group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey, value: ConsumerGroupMemberMetadataValue | None
) -> None:
    if value is None:
        group.drop_member(key.member_id)
        return
    member = group.members.get(key.member_id) or ConsumerGroupMember(key.member_id)
    group.put_member(with_metadata(member, value))


def _replay_target_epoch(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    if value is None:
        group.set_target_epoch(-1, Millis(0))
    else:
        group.set_target_epoch(value.assignment_epoch, Millis(value.assignment_timestamp))


def _replay_target(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    group.set_target(key.member_id, None if value is None else target(value))


def _replay_current_assignment(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if value is not None:
        group.put_member(with_assignment(member or ConsumerGroupMember(key.member_id), value))
    elif member is not None:
        group.put_member(
            member._replace(
                member_epoch=LEAVING_EPOCH,
                previous_member_epoch=LEAVING_EPOCH,
                assigned=NO_PARTITIONS,
                pending_revocation=NO_PARTITIONS,
            )
        )


def _replay_regex(
    group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, value: ConsumerGroupRegularExpressionValue | None
) -> None:
    group.set_regex(key.regular_expression, None if value is None else resolved_regex(value))


REPLAY: Final[Mapping[type[Message], Callable[[ConsumerGroup, Any, Any], None]]] = {
    ConsumerGroupMetadataKey: _replay_epoch,
    ConsumerGroupPartitionMetadataKey: _replay_legacy_metadata,
    ConsumerGroupMemberMetadataKey: _replay_member,
    ConsumerGroupTargetAssignmentMetadataKey: _replay_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _replay_target,
    ConsumerGroupCurrentMemberAssignmentKey: _replay_current_assignment,
    ConsumerGroupRegularExpressionKey: _replay_regex,
}
"""Applies a record to its group, by the type of the record's key. The tombstone of a group is left to the store."""

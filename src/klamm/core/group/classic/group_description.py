"""The decision on a DescribeGroups request. After Apache Kafka's `GroupMetadataManager.describeGroups`."""

from __future__ import annotations

from klamm.core.coordinator.shard_contract import ClientContext, Result, Ticket
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.classic_groups import ClassicGroups
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.member import Member
from klamm.core.group.group_store import GroupStore
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)

__all__ = ["describe_groups"]

_GROUP_ID_NOT_FOUND_FROM = 6


def describe_groups(
    groups: ClassicGroups, store: GroupStore, request: DescribeGroupsRequest, context: ClientContext, ticket: Ticket
) -> Result:
    """Describes each group with its members.

    A group that is unknown or no classic group is Dead; since version 6 with GROUP_ID_NOT_FOUND (KIP-1043).
    """
    described = []
    for group_id in request.groups:
        group = groups.find(group_id)
        if group is not None:
            described.append(_describe(group))
        elif context.api_version >= _GROUP_ID_NOT_FOUND_FROM:
            is_other = store.is_known(group_id)
            described.append(
                DescribedGroup(
                    group_id=group_id,
                    group_state=GroupState.DEAD.value,
                    error_code=ErrorCode.GROUP_ID_NOT_FOUND,
                    error_message=f"Group {group_id} is not a classic group."
                    if is_other
                    else f"Group {group_id} not found.",
                )
            )
        else:
            described.append(DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value))
    result = Result()
    result.reply(ticket, DescribeGroupsResponse(groups=described))
    return result


def _describe(group: ClassicGroup) -> DescribedGroup:
    # Protocol and metadata are final only in a stable group.
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[
            _describe_member(member, member.metadata(group.protocol_name) if is_stable and not member.is_new else b"")
            for member in group.members.values()
        ],
    )


def _describe_member(member: Member, metadata: bytes) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=metadata,
        member_assignment=member.assignment,
    )

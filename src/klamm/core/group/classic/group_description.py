"""What groups look like from outside: ListGroups and DescribeGroups.

After Apache Kafka's `GroupMetadataManager.listGroups` and `describeGroups`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.core.coordinator.shard_contract import ClientContext, Result, Ticket
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.member import Member
from klamm.core.group.consumer.group_state import ConsumerGroupState
from klamm.core.group.events import GroupType
from klamm.core.group.group_registry import GroupRegistry
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListedGroup, ListGroupsResponse

__all__ = ["STATE_NAMES", "TYPE_NAMES", "describe_groups", "list_groups"]

STATE_NAMES: Final = frozenset(state.value.lower() for state in (*GroupState, *ConsumerGroupState))
"""The names of states that a filter may have, as they are compared."""
TYPE_NAMES: Final = frozenset(each.value for each in GroupType)

_GROUP_ID_NOT_FOUND_FROM = 6


def list_groups(
    groups: GroupRegistry, request: ListGroupsRequest, ticket: Ticket, among: Iterable[str] | None = None
) -> Result:
    """All groups in one of the states and of one of the types, in any letter case; no filter lets all through.

    Only those `among` the ids, if there are any: one that has gone is left out.
    """
    states = {state.lower().strip() for state in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    listed = []
    if not types or GroupType.CLASSIC.value in types:
        classic = groups.store.groups
        for group_id in classic if among is None else filter(classic.__contains__, among):
            state, protocol_type = groups.summary(group_id)
            if not states or state.value.lower() in states:
                listed.append(
                    ListedGroup(
                        group_id=group_id,
                        protocol_type=protocol_type or "",
                        group_state=state.value,
                        group_type=GroupType.CLASSIC.value,
                    )
                )
    if not types or GroupType.CONSUMER.value in types:
        consumer = groups.store.consumer_groups
        for group in consumer.values() if among is None else filter(None, map(consumer.get, among)):
            group_state = group.state.value
            if not states or group_state.lower() in states:
                listed.append(
                    ListedGroup(
                        group_id=group.group_id,
                        protocol_type=group.protocol_type,
                        group_state=group_state,
                        group_type=GroupType.CONSUMER.value,
                    )
                )
    result = Result()
    result.reply(ticket, ListGroupsResponse(groups=listed))
    return result


def describe_groups(
    groups: GroupRegistry, request: DescribeGroupsRequest, context: ClientContext, ticket: Ticket
) -> Result:
    """Each group with its members.

    A group that is unknown, or no classic group, is Dead, and since version 6 GROUP_ID_NOT_FOUND (KIP-1043).
    """
    described = []
    for group_id in request.groups:
        group = groups.find(group_id)
        if group is not None:
            described.append(_describe(group))
        elif context.api_version >= _GROUP_ID_NOT_FOUND_FROM:
            is_other = group_id in groups.store.consumer_groups
            described.append(
                DescribedGroup(
                    group_id=group_id,
                    group_state=GroupState.DEAD.value,
                    error_code=ErrorCode.group_id_not_found,
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
    # Protocol and metadata are settled in a stable group only.
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

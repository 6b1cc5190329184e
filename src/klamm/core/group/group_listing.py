"""Lists groups of all kinds: the API ListGroups. After Apache Kafka's `GroupMetadataManager.listGroups`."""

from __future__ import annotations

from collections.abc import Iterable

from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.group.group_registry import GroupRegistry
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListedGroup, ListGroupsResponse

__all__ = ["list_groups"]


def list_groups(
    groups: GroupRegistry, request: ListGroupsRequest, ticket: Ticket, among: Iterable[str] | None = None
) -> Result:
    """Answers with all groups that match the state and type filters, ignoring case; an empty filter matches all.

    If `among` is given, only these group ids are listed, without those that no longer exist.
    """
    states = {state.lower().strip() for state in request.states_filter}
    types = {name.lower() for name in request.types_filter}
    listed = []
    for kind in groups.shards:
        type_name = kind.store.group_type.value
        if types and type_name not in types:
            continue
        group_ids = kind.store.groups
        for group_id in group_ids if among is None else filter(group_ids.__contains__, among):
            state, protocol_type = kind.summary(group_id)
            if not states or state.lower() in states:
                listed.append(
                    ListedGroup(group_id=group_id, protocol_type=protocol_type, group_state=state, group_type=type_name)
                )
    result = Result()
    result.reply(ticket, ListGroupsResponse(groups=listed))
    return result

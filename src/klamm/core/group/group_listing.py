"""Lists groups of all kinds: the API ListGroups. After Apache Kafka's `GroupMetadataManager.listGroups`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.consumer.group_state import ConsumerGroupState
from klamm.core.group.events import GroupType
from klamm.core.group.group_registry import GroupRegistry
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListedGroup, ListGroupsResponse

__all__ = ["STATE_NAMES", "TYPE_NAMES", "list_groups"]

STATE_NAMES: Final = frozenset(state.value.lower() for state in (*GroupState, *ConsumerGroupState))
"""The state names that a filter may contain, in lower case, as they are compared."""
TYPE_NAMES: Final = frozenset(each.value for each in GroupType)


def list_groups(
    groups: GroupRegistry, request: ListGroupsRequest, ticket: Ticket, among: Iterable[str] | None = None
) -> Result:
    """Answers with all groups that match the state and type filters, ignoring case; an empty filter matches all.

    If `among` is given, only these group ids are listed, without those that no longer exist.
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

"""Adds fields for klamm's own tools to descriptions of groups: how many members a group needs, which members a classic
group waits for, and the causes of a change in progress.

They are tagged fields that Kafka does not have. Clients skip unknown tags, but only klamm's tools receive these: every
other client gets the same bytes as from Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from klamm.broker.time_slices import finish_in_steps
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse
from klamm.runtime.answers import Answer

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["add_awaited_members", "add_change_under_way", "add_members_needed"]

R = TypeVar("R", ConsumerGroupDescribeResponse, DescribeGroupsResponse)

_OWN_SOFTWARE: Final = "klamm"
"""Software name that the raw client sends in its ApiVersions request (KIP-511)."""


def add_members_needed(context: RequestContext, answer: Answer[R]) -> Answer[R]:
    """Sets how many members each group needs, where that is known and the client is one of klamm's own tools."""
    if context.connection.client_software_name != _OWN_SOFTWARE:
        return answer
    return _measure_groups(context, answer)


async def _measure_groups(context: RequestContext, answer: Answer[R]) -> R:
    response: R = await answer if hasattr(answer, "__await__") else answer
    for group in response.groups:
        if not group.error_code:
            figures = await finish_in_steps(context.broker.groups.measurements.figures_of(group.group_id))
            if figures is not None and figures.members_needed is not None:
                group.members_needed = figures.members_needed
    return response


def add_awaited_members(context: RequestContext, response: DescribeGroupsResponse) -> DescribeGroupsResponse:
    """Sets the members that each group waits for, if the client is one of klamm's own tools."""
    if context.connection.client_software_name == _OWN_SOFTWARE:
        for group in response.groups:
            if not group.error_code:
                group.awaited_members = context.broker.groups.awaited_members(group.group_id)
    return response


def add_change_under_way(context: RequestContext, response: R) -> R:
    """Sets start and causes of each group's change in progress, if the client is one of klamm's own tools."""
    if context.connection.client_software_name == _OWN_SOFTWARE:
        for group in response.groups:
            change = None if group.error_code else context.broker.change_under_way(group.group_id)
            if change is not None:
                group.changing_since_ms = change.started_at
                group.change_causes = [cause.detail for cause in change.causes]
    return response

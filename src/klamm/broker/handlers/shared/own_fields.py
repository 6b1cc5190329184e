"""What klamm's own tools are told of a group in addition to what Kafka's answers have: how many members it needs, for
whom a classic group waits, and why a change is under way.

It travels in tagged fields that Kafka doesn't have. Clients pass over tags that they don't know, but what a client
that is no tool of klamm's sees should be Kafka's answer to the last byte; so it gets none.
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
"""What the raw client calls itself in its ApiVersions request (KIP-511)."""


def add_members_needed(context: RequestContext, answer: Answer[R]) -> Answer[R]:
    """Put the figure to each group where it is known, if one of klamm's own tools asks."""
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
    """Name those for whom each group waits, if one of klamm's own tools asks."""
    if context.connection.client_software_name == _OWN_SOFTWARE:
        for group in response.groups:
            if not group.error_code:
                group.awaited_members = context.broker.groups.awaited_members(group.group_id)
    return response


def add_change_under_way(context: RequestContext, response: R) -> R:
    """Say of each group that is changing since when and why, if one of klamm's own tools asks."""
    if context.connection.client_software_name == _OWN_SOFTWARE:
        for group in response.groups:
            change = None if group.error_code else context.broker.change_under_way(group.group_id)
            if change is not None:
                group.changing_since_ms = change.started_at
                group.change_causes = [cause.detail for cause in change.causes]
    return response

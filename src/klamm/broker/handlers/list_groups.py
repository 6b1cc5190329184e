"""ListGroups: the groups that this broker coordinates.

Versions 0 to 5: 3 flexible, 4 states and a filter on them (KIP-518), 5 types and a filter on them (KIP-848).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from klamm.broker.steps import IDS_AT_ONCE, answer_in_steps
from klamm.core.coordinator.append_errors import coordinator_error
from klamm.core.coordinator.contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse
from klamm.runtime.answers import Answer
from klamm.runtime.group_coordinator import merge_lists

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: ListGroupsRequest) -> Answer[ListGroupsResponse | bytes]:
    """Lists the groups in the states and of the types asked for, in steps if there are very many."""
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    groups = context.broker.groups
    slices = groups.group_ids(IDS_AT_ONCE)
    if sum(len(group_ids) for _, group_ids in slices) <= IDS_AT_ONCE:
        return groups.list_groups(request, client)
    parts = [partial(groups.list_groups, request, client, each) for each in slices]
    return answer_in_steps(parts, merge_lists, context.api_version)


def error_response(
    request: ListGroupsRequest, version: int, code: ErrorCode, message: str | None = None
) -> ListGroupsResponse:
    """The answer that lists nothing."""
    return ListGroupsResponse(error_code=coordinator_error(code))

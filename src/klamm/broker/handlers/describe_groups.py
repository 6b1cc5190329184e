"""DescribeGroups: returns state and members of groups.

Versions 0 to 6: v3 authorized operations (KIP-430), v4 static members (KIP-345), v5 flexible, v6 GROUP_ID_NOT_FOUND
with a message (KIP-1043).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.authorized_operations import GROUP_OPERATIONS
from klamm.broker.handlers.shared.own_fields import add_awaited_members, add_change_under_way, add_members_needed
from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse
from klamm.runtime.answers import Answer, then
from klamm.runtime.error_responses import describe_groups_error

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["PART_ELEMENTS", "error_response", "handle"]


PART_ELEMENTS: Final = 50
"""Maximum number of groups described in one step."""


def handle(context: RequestContext, request: DescribeGroupsRequest) -> Answer[DescribeGroupsResponse]:
    """Describes the groups. Each has its own error."""
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    answer = context.broker.groups.describe_groups(request, client)
    if request.include_authorized_operations:
        answer = then(answer, _with_operations)
    answer = then(answer, partial(add_awaited_members, context))
    answer = then(answer, partial(add_change_under_way, context))
    return add_members_needed(context, answer)


def error_response(
    request: DescribeGroupsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeGroupsResponse:
    """Returns a response with this error for every group."""
    return describe_groups_error(request, code)


def _with_operations(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
    for group in response.groups:
        if not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS
    return response

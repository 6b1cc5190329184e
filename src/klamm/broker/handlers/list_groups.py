"""ListGroups: the groups that this broker coordinates.

Versions 0 to 5: 3 flexible, 4 states and a filter on them (KIP-518), 5 types and a filter on them (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.core.coordinator.append_errors import coordinator_error
from klamm.core.coordinator.contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse
from klamm.runtime.answers import Answer

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: ListGroupsRequest) -> Answer[ListGroupsResponse]:
    """Lists the groups in the states and of the types asked for."""
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    return context.broker.groups.list_groups(request, client)


def error_response(
    request: ListGroupsRequest, version: int, code: ErrorCode, message: str | None = None
) -> ListGroupsResponse:
    """The answer that lists nothing."""
    return ListGroupsResponse(error_code=coordinator_error(code))

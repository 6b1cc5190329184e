"""DeleteGroups: groups without members are forgotten, with all they committed (KIP-229).

Versions 0 to 2: 2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.core.coordinator.contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.delete_groups_response import DeleteGroupsResponse
from klamm.runtime.answers import Answer
from klamm.runtime.error_responses import delete_groups_error

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: DeleteGroupsRequest) -> Answer[DeleteGroupsResponse]:
    """Deletes the groups; each has an error of its own, and a group named twice is deleted once."""
    request.groups_names = list(dict.fromkeys(request.groups_names))
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    return context.broker.groups.delete_groups(request, client)


def error_response(
    request: DeleteGroupsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DeleteGroupsResponse:
    """The answer that refuses every group."""
    return DeleteGroupsResponse(results=delete_groups_error(request.groups_names, code))

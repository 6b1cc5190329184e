"""DeleteGroups: deletes groups without members, with their committed offsets (KIP-229).

Versions 0 to 2: v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.time_slices import Work, answer_of
from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.parts import parts_of
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.delete_groups_response import DeleteGroupsResponse
from klamm.runtime.error_responses import delete_groups_error

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


_GROUPS_AT_ONCE: Final = 50
"""Maximum number of groups passed to the coordinator in one step."""


def handle(context: RequestContext, request: DeleteGroupsRequest) -> Work[DeleteGroupsResponse]:
    """Deletes the groups. Each has its own error; a group named twice is deleted once."""
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    names: dict[str, None] = {}
    for name in request.groups_names:
        names[name] = None
        yield None
    request.groups_names = list(names)
    answers = []
    for part in parts_of(request, _GROUPS_AT_ONCE):
        answers.append(context.broker.groups.delete_groups(part.message, client))
        yield None
    response = DeleteGroupsResponse()
    for answer in answers:
        response.results += (yield from answer_of(answer)).results
        yield None
    return response


def error_response(
    request: DeleteGroupsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DeleteGroupsResponse:
    """Returns a response with this error for every group."""
    return delete_groups_error(request, code)

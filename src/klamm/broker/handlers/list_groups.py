"""ListGroups: returns the groups that this broker coordinates.

Versions 0 to 5: v3 flexible, v4 states and a filter on them (KIP-518), v5 types and a filter on them (KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.time_slices import Work, answer_of
from klamm.core.coordinator.append_errors import coordinator_error
from klamm.core.coordinator.shard_contract import ClientContext
from klamm.core.group.group_kinds import STATE_NAMES, TYPE_NAMES
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_IDS_AT_ONCE: Final = 500
"""Maximum number of groups listed in one step: about a millisecond."""


def handle(context: RequestContext, request: ListGroupsRequest) -> Work[ListGroupsResponse]:
    """Lists the groups in the requested states and of the requested types."""
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    groups = context.broker.groups
    request.states_filter = yield from _fewest(request.states_filter, STATE_NAMES)
    request.types_filter = yield from _fewest(request.types_filter, TYPE_NAMES)
    slices = groups.group_ids(_IDS_AT_ONCE)
    if sum(len(group_ids) for _, group_ids in slices) <= _IDS_AT_ONCE:
        return (yield from answer_of(groups.list_groups(request, client)))
    answers = []
    for each in slices:
        answers.append(groups.list_groups(request, client, each))
        yield None
    response = ListGroupsResponse()
    for answer in answers:
        part = yield from answer_of(answer)
        if part.error_code:
            return part
        response.groups += part.groups
        yield None
    return response


def _fewest(names: list[str], known: frozenset[str]) -> Work[list[str]]:
    """Returns the known names of a filter without duplicates, or one unknown name if all are unknown.

    A short filter saves time, because every group is compared with all names. An unknown name matches no group.
    """
    fewest: dict[str, None] = {}
    for name in names:
        normal = name.lower()
        if normal.strip() in known:
            fewest[normal] = None
        yield None
    return list(fewest) or names[:1]


def error_response(
    request: ListGroupsRequest, version: int, code: ErrorCode, message: str | None = None
) -> ListGroupsResponse:
    """Returns a response with this error."""
    return ListGroupsResponse(error_code=coordinator_error(code))

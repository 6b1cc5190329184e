"""ConsumerGroupDescribe: returns epochs, members and assignments of consumer groups (KIP-848).

Versions 0 to 1: v1 the type of each member, classic or consumer (KIP-1099).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.authorized_operations import GROUP_OPERATIONS
from klamm.broker.handlers.shared.own_fields import add_change_under_way, add_members_needed
from klamm.broker.handlers.shared.rebalance_protocols import check_consumer_protocol
from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse
from klamm.runtime.answers import Answer, then
from klamm.runtime.error_responses import consumer_group_describe_error

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["PART_ELEMENTS", "error_response", "handle"]


PART_ELEMENTS: Final = 50
"""Maximum number of groups described in one step."""


def handle(context: RequestContext, request: ConsumerGroupDescribeRequest) -> Answer[ConsumerGroupDescribeResponse]:
    """Describes the groups. Each has its own error: GROUP_ID_NOT_FOUND if it is not a consumer group.

    Raises UNSUPPORTED_VERSION if the consumer protocol is disabled.
    """
    check_consumer_protocol(context.broker.config)
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    answer = context.broker.groups.consumer_group_describe(request, client)
    if request.include_authorized_operations:
        answer = then(answer, _with_operations)
    answer = then(answer, partial(add_change_under_way, context))
    return add_members_needed(context, answer)


def error_response(
    request: ConsumerGroupDescribeRequest, version: int, code: ErrorCode, message: str | None = None
) -> ConsumerGroupDescribeResponse:
    """Returns a response with this error for every group."""
    return consumer_group_describe_error(request, code)


def _with_operations(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
    for group in response.groups:
        if not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS
    return response

"""ConsumerGroupDescribe: epochs, members and assignments of consumer groups (KIP-848).

Versions 0 to 1: 1 the type of each member, classic or consumer (KIP-1099).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from klamm.broker.authorized_operations import GROUP_OPERATIONS
from klamm.broker.own_fields import add_members_needed
from klamm.broker.rebalance_protocols import check_consumer_protocol
from klamm.broker.steps import GROUPS_AT_ONCE, answer_in_steps
from klamm.core.coordinator.append_errors import coordinator_error
from klamm.core.coordinator.contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup
from klamm.runtime.answers import Answer, then

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Answer[ConsumerGroupDescribeResponse | bytes]:
    """Describes the groups, in steps if they are very many; each has an error of its own, GROUP_ID_NOT_FOUND where it
    is no consumer group.

    Raises UNSUPPORTED_VERSION where the consumer protocol is switched off.
    """
    check_consumer_protocol(context.broker.config)
    asked = request.group_ids
    if len(asked) <= GROUPS_AT_ONCE:
        return _describe(context, request)
    parts = [
        partial(
            _describe,
            context,
            ConsumerGroupDescribeRequest(
                group_ids=asked[start : start + GROUPS_AT_ONCE],
                include_authorized_operations=request.include_authorized_operations,
            ),
        )
        for start in range(0, len(asked), GROUPS_AT_ONCE)
    ]
    return answer_in_steps(parts, _merge, context.api_version)


def _merge(parts: list[ConsumerGroupDescribeResponse]) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(groups=[group for part in parts for group in part.groups])


def _describe(context: RequestContext, request: ConsumerGroupDescribeRequest) -> Answer[ConsumerGroupDescribeResponse]:
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    answer = context.broker.groups.consumer_group_describe(request, client)
    if request.include_authorized_operations:
        answer = then(answer, _with_operations)
    return add_members_needed(context, answer)


def error_response(
    request: ConsumerGroupDescribeRequest, version: int, code: ErrorCode, message: str | None = None
) -> ConsumerGroupDescribeResponse:
    """The answer that refuses every group."""
    error_code = coordinator_error(code)
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error_code) for group_id in request.group_ids]
    )


def _with_operations(response: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
    for group in response.groups:
        if not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS
    return response

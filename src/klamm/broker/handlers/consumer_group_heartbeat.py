"""ConsumerGroupHeartbeat: joins a consumer group, keeps the session alive, returns the assignment, leaves (KIP-848).

Versions 0 to 1: v1 subscriptions by regular expression, and member ids that clients generate (KIP-1082).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.broker.handlers.shared.rebalance_protocols import check_consumer_protocol
from klamm.core.coordinator.append_errors import coordinator_error
from klamm.core.coordinator.shard_contract import ClientContext
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.runtime.answers import Answer

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]


def handle(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Answer[ConsumerGroupHeartbeatResponse]:
    """Returns the member's epoch, the heartbeat interval, and the assignment if it has changed.

    Raises UNSUPPORTED_VERSION if the consumer protocol is disabled.
    """
    check_consumer_protocol(context.broker.config)
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    return context.broker.groups.consumer_group_heartbeat(request, client, context.request_fingerprint)


def error_response(
    request: ConsumerGroupHeartbeatRequest, version: int, code: ErrorCode, message: str | None = None
) -> ConsumerGroupHeartbeatResponse:
    """Returns the response to a request that failed before it reached the coordinator.

    As in Kafka, it has no message.
    """
    return ConsumerGroupHeartbeatResponse(error_code=coordinator_error(code))

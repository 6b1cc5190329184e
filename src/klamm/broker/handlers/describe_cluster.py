"""DescribeCluster: returns the cluster's id, its brokers and its controller (KIP-700).

Versions 0 to 2: v1 the requested endpoint type (KIP-919), v2 fenced brokers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.authorized_operations import CLUSTER_OPERATIONS
from klamm.broker.handlers.shared.nodes import Node, controller_among, fenced_nodes_for, nodes_for
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.describe_cluster_request import DescribeClusterRequest
from klamm.protocol.schema.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_ENDPOINT_TYPES: Final = {1: "BROKER", 2: "CONTROLLER"}
BROKER: Final = 1


def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Returns the live brokers, and on request also the registered brokers that are not live, as fenced.

    Raises MISMATCHED_ENDPOINT_TYPE if the client expects a controller's listener, UNSUPPORTED_ENDPOINT_TYPE for an
    unknown type.
    """
    if request.endpoint_type not in _ENDPOINT_TYPES:
        reason = f"Unsupported endpoint type {request.endpoint_type}"
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, reason)
    if request.endpoint_type != BROKER:
        reason = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            f"{_ENDPOINT_TYPES[request.endpoint_type]}"
        )
        raise KafkaError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, reason)
    nodes = nodes_for(context)
    described = [_describe(node, is_fenced=False) for node in nodes]
    if request.include_fenced_brokers:
        described += [_describe(node, is_fenced=True) for node in fenced_nodes_for(context)]
        described.sort(key=lambda broker: broker.broker_id)
    response = DescribeClusterResponse(
        endpoint_type=BROKER,
        cluster_id=context.broker.cluster_id,
        controller_id=controller_among(nodes, context.broker.metadata.image),
        brokers=described,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _describe(node: Node, *, is_fenced: bool) -> DescribeClusterBroker:
    return DescribeClusterBroker(broker_id=node.id, host=node.host, port=node.port, rack=node.rack, is_fenced=is_fenced)


def error_response(
    request: DescribeClusterRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeClusterResponse:
    """Returns a response with this error."""
    return DescribeClusterResponse(error_code=code, error_message=message)

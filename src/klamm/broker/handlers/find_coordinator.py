"""FindCoordinator: returns the broker that coordinates a group or a transactional id.

Versions 0 to 6: v1 key types and an error message, v3 flexible, v4 several keys (KIP-699), v5 TRANSACTION_ABORTABLE
(KIP-890), v6 share groups (KIP-932).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.broker.handlers.shared.nodes import Node, nodes_for
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import Coordinator, FindCoordinatorResponse
from klamm.protocol.types import BrokerId
from klamm.runtime.answers import Answer

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["PART_ELEMENTS", "error_response", "handle"]

_logger = logging.getLogger(__name__)

_TOPICS: Final = {0: OFFSETS_TOPIC, 1: TRANSACTIONS_TOPIC}
"""Internal topic by key type: groups and transactional ids."""
_SEVERAL_KEYS_FROM: Final = 4
_NOT_AVAILABLE: Final = "The coordinator is not available."
_NO_NODE: Final = Node(BrokerId(-1), "", -1, None)


class _Found(NamedTuple):
    key: str
    code: ErrorCode
    message: str | None
    node: Node


PART_ELEMENTS: Final = 50
"""Maximum number of keys looked up in one step."""


def handle(context: RequestContext, request: FindCoordinatorRequest) -> Answer[FindCoordinatorResponse]:
    """Finds the brokers that lead the keys' partitions of `__consumer_offsets` or `__transaction_state`.

    The first request creates the topic; if that fails, the answer is COORDINATOR_NOT_AVAILABLE. Raises INVALID_REQUEST
    for unknown key types and for share groups, which are not served yet.
    """
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"this broker has no coordinator of type {request.key_type}")
    if topic in context.broker.metadata.image.topics:
        return _find(context, request, topic)
    return _create_and_find(context, request, topic)


def error_response(
    request: FindCoordinatorRequest, version: int, code: ErrorCode, message: str | None = None
) -> FindCoordinatorResponse:
    """Returns a response with this error for every key."""
    keys = request.coordinator_keys if version >= _SEVERAL_KEYS_FROM else [request.key]
    return _response([_Found(key, code, message, _NO_NODE) for key in keys], version)


async def _create_and_find(
    context: RequestContext, request: FindCoordinatorRequest, name: str
) -> FindCoordinatorResponse:
    try:
        await context.broker.ensure_internal_topic(name)
    except KafkaError as error:
        # Clients retry this code, and may take the reason, for example that no broker is live now, for fatal.
        _logger.warning("%s could not be created: %s", name, error)
        return error_response(request, context.api_version, ErrorCode.COORDINATOR_NOT_AVAILABLE, _NOT_AVAILABLE)
    return _find(context, request, name)


def _find(context: RequestContext, request: FindCoordinatorRequest, name: str) -> FindCoordinatorResponse:
    keys = request.coordinator_keys if context.api_version >= _SEVERAL_KEYS_FROM else [request.key]
    broker = context.broker
    topic = broker.metadata.image.topics[name]
    partition_for = broker.groups.partition_for if name == OFFSETS_TOPIC else broker.transactions.partition_for
    nodes = {node.id: node for node in nodes_for(context)}
    found = []
    for key in keys:
        partition = topic.partitions[partition_for(key)]
        node = nodes.get(partition.leader)
        if node is None or broker.partitions.is_offline(topic.name, partition.index):
            found.append(_Found(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, _NOT_AVAILABLE, _NO_NODE))
        else:
            found.append(_Found(key, ErrorCode.NONE, None, node))
    return _response(found, context.api_version)


def _response(found: list[_Found], version: int) -> FindCoordinatorResponse:
    if version >= _SEVERAL_KEYS_FROM:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(
                    key=each.key,
                    error_code=each.code,
                    error_message=each.message or "",
                    node_id=each.node.id,
                    host=each.node.host,
                    port=each.node.port,
                )
                for each in found
            ]
        )
    (one,) = found
    return FindCoordinatorResponse(
        error_code=one.code,
        # Kafka's message for success is the name of the code.
        error_message=one.message or one.code.name,
        node_id=one.node.id,
        host=one.node.host,
        port=one.node.port,
    )

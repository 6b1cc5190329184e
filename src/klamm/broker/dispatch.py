"""From a frame to the handler of its API, and from the handler's answer to bytes.

Handlers are modules in `klamm.broker.handlers`, imported when their API is first asked for, so that a broker starts
in a blink. Each offers `handle(context, request)` and `error_response(request, version, code, message)`. Produce and
Fetch are the hot path: their modules offer `handle_frame(context, view, position)` instead, with codecs of their own.

Heartbeats come in the same bytes again and again. The group coordinator is asked first whether it can repeat what it
answered to them (`runtime/standing_answers.py`); only if it can't they are decoded.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Any, Final, TypeAlias, cast

from klamm.broker.context import BrokerContext, ConnectionInfo, RequestContext
from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import Message, decode, encode
from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.headers import decode_request_header

__all__ = ["ADVERTISED_VERSIONS", "Body", "Dispatcher", "PendingBody"]

logger = logging.getLogger(__name__)

Body: TypeAlias = "list[bytes | memoryview]"
PendingBody: TypeAlias = "asyncio.Future[Body | None]"

# What this broker serves, in the order of the API keys.
SERVED: Final = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.LIST_GROUPS,
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.DELETE_RECORDS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.DESCRIBE_LOG_DIRS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_GROUPS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_PRODUCERS,
    ApiKey.DESCRIBE_TRANSACTIONS,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.LIST_CONFIG_RESOURCES,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)

ACCEPTED_VERSIONS: Final = {key: (API_SPECS[key].min_version, API_SPECS[key].max_version) for key in SERVED}

# librdkafka takes a broker without Produce v0 for one that is too old for gzip and snappy (KAFKA-18659), so Kafka
# advertises what it refuses.
ADVERTISED_VERSIONS: Final = ACCEPTED_VERSIONS | {ApiKey.PRODUCE: (0, ACCEPTED_VERSIONS[ApiKey.PRODUCE][1])}

START: Final = Struct(">hhi")
"""API key, version, correlation id: all of a request that may differ where the same is said again is the last."""
REPEATED_FLEXIBLE_FROM: Final = {
    int(key): cast(int, API_SPECS[key].flexible_from) for key in (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT)
}

HandleFrame: TypeAlias = "Callable[[RequestContext, memoryview, int], Body | PendingBody | None]"


class Dispatcher:
    """Hands every frame of every connection to the handler of its API."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._routes: dict[int, HandleFrame] = {}

    def dispatch(self, connection: ConnectionInfo, frame: memoryview) -> tuple[int, bool, Body | PendingBody] | None:
        """Handles one request.

        Returns (correlation id, whether the answer's header is flexible, the answer's body or a future of it), or
        None where the protocol has no answer. Raises MalformedMessage when the frame can't be answered and its
        connection should be closed.
        """
        said = b""
        if len(frame) >= START.size and frame[1] in REPEATED_FLEXIBLE_FROM and not frame[0]:
            said = b"".join((connection.name_in_requests, frame[:4], frame[8:]))
            repeated = self._broker.groups.repeat(said)
            if repeated is not None:
                number, version, correlation_id = START.unpack_from(frame)
                return correlation_id, version >= REPEATED_FLEXIBLE_FROM[number], [repeated]
        header = decode_request_header(frame)
        route = self._routes.get(header.api_key)
        if route is None:
            route = self._load_route(header.api_key)
        version = header.api_version
        api_key = cast(ApiKey, header.api_key)
        lowest, highest = ACCEPTED_VERSIONS[api_key]
        if not lowest <= version <= highest:
            if api_key == ApiKey.API_VERSIONS:  # KIP-511: answered in version 0, so that the client can ask again
                return header.correlation_id, False, self._downgraded_api_versions()
            raise MalformedMessage(f"{api_key.name} version {version} is not served ({lowest} to {highest} are)")
        context = RequestContext(self._broker, connection, api_key, version, header.client_id, said)
        body = route(context, frame, header.end)
        if body is None:
            return None
        flexible_from = API_SPECS[api_key].flexible_from
        is_flexible = flexible_from is not None and version >= flexible_from and api_key != ApiKey.API_VERSIONS
        return header.correlation_id, is_flexible, body

    def _load_route(self, api_key: int) -> HandleFrame:
        try:
            key = ApiKey(api_key)
            ACCEPTED_VERSIONS[key]
        except (ValueError, KeyError):
            raise MalformedMessage(f"API key {api_key} is not served") from None
        module = importlib.import_module(f"klamm.broker.handlers.{key.name.lower()}")
        route = getattr(module, "handle_frame", None) or _route_through_codec(key, module)
        self._routes[api_key] = route
        return cast(HandleFrame, route)

    def _downgraded_api_versions(self) -> Body:
        from klamm.broker.handlers.api_versions import unsupported_version_response

        return [encode(unsupported_version_response(), 0)]


def _route_through_codec(key: ApiKey, module: Any) -> HandleFrame:
    """The route of an API that uses the generated codec."""
    request_class = API_SPECS[key].request_class()
    handle = module.handle
    error_response = module.error_response

    def answer_error(context: RequestContext, request: Message, error: BaseException) -> Body:
        if isinstance(error, KafkaError):
            code, message = error.code, error.message
        else:
            logger.error("%s of %s failed", key.name, context.connection.peer, exc_info=error)
            code, message = ErrorCode.unknown_server_error, None
        return [encode(error_response(request, context.api_version, code, message), context.api_version)]

    async def finish(context: RequestContext, request: Message, pending: Awaitable[Message | bytes]) -> Body | None:
        try:
            response = await pending
            # What is very large comes encoded (`steps.py`).
            return [response if isinstance(response, bytes) else encode(response, context.api_version)]
        except asyncio.CancelledError:
            raise
        except Exception as error:
            return answer_error(context, request, error)

    def handle_frame(context: RequestContext, view: memoryview, position: int) -> Body | PendingBody | None:
        request, _ = decode(request_class, context.api_version, view, position)
        try:
            response = handle(context, request)
            if isinstance(response, Message):
                return [encode(response, context.api_version)]
        except MalformedMessage:
            raise
        except Exception as error:
            return answer_error(context, request, error)
        return asyncio.ensure_future(finish(context, request, response))

    return handle_frame

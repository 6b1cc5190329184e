"""Dispatches each frame to the handler of its API, and returns the encoded response.

Handlers are modules in `klamm.broker.handlers`. A module is imported at the first request of its API, so that a broker
starts fast. `CodecRoute` documents the functions of a handler module. Produce and Fetch are the hot path: their modules
offer `handle_frame(context, view, position)` instead, with their own codecs.

A client sends the same heartbeat bytes many times. The group coordinator first checks whether it can repeat its cached
answer (`runtime/reusable_answers.py`). Only otherwise the heartbeat is decoded.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from struct import Struct
from typing import Final, TypeAlias, cast

from klamm.broker.handler_context import BrokerContext, ConnectionInfo, RequestContext
from klamm.broker.network.codec_route import COPIED_FRAME_BYTES, SMALL_FRAME_BYTES, CodecRoute
from klamm.broker.time_slices import Progress, Work, begin_later, wait_for
from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import encode
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.headers import decode_request_header

__all__ = ["ADVERTISED_VERSIONS", "Body", "Dispatcher", "PendingBody"]

Body: TypeAlias = "list[bytes | memoryview]"
"""The parts of a response body. A Fetch response may also have parts in files, which `file_sending` handles."""
PendingBody: TypeAlias = "asyncio.Future[Body | None]"

# In the order of the API keys: the APIs of an Apache Kafka broker without a receiver for clients' metrics (KIP-714).
# Programs derive the Kafka version of a broker from this list.
_SERVED: Final[tuple[ApiKey, ...]] = tuple(
    sorted(
        key
        for key, spec in API_SPECS.items()
        if "broker" in spec.listeners and key not in (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
    )
)

ACCEPTED_VERSIONS: Final = {key: (API_SPECS[key].min_version, API_SPECS[key].max_version) for key in _SERVED}

# Without Produce v0, librdkafka treats a broker as too old for gzip and snappy (KAFKA-18659). So Kafka advertises
# versions that it refuses.
ADVERTISED_VERSIONS: Final = ACCEPTED_VERSIONS | {ApiKey.PRODUCE: (0, ACCEPTED_VERSIONS[ApiKey.PRODUCE][1])}

_START: Final = Struct(">hhi")
"""API key, version and correlation id. Two heartbeats are equal if they differ only in the correlation id."""
_REPEATED_FLEXIBLE_FROM: Final = {
    int(key): cast(int, API_SPECS[key].flexible_from) for key in (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT)
}

_LONGEST_REPEATED: Final = 16 * 1024
"""Larger frames are not compared, because the time of a comparison grows with the size."""

HandleFrame: TypeAlias = "Callable[[RequestContext, memoryview, int], Body | PendingBody | None]"


def check_served(api_key: int) -> None:
    """Raises MalformedMessage for an API that is not served."""
    if api_key not in ACCEPTED_VERSIONS:
        raise MalformedMessage(f"API key {api_key} is not served")


class Dispatcher:
    """Passes every frame of every connection to the handler of its API."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._routes: dict[int, HandleFrame] = {}

    def dispatch(self, connection: ConnectionInfo, frame: memoryview) -> tuple[int, bool, Body | PendingBody] | None:
        """Handles one request.

        Returns (correlation id, whether the response header is flexible, the response body or a future of it), or
        None if the protocol has no response. Raises MalformedMessage if the frame can't be answered and its
        connection should be closed.
        """
        request_fingerprint = b""
        if _START.size <= len(frame) <= _LONGEST_REPEATED and frame[1] in _REPEATED_FLEXIBLE_FROM and not frame[0]:
            request_fingerprint = b"".join((connection.name_in_requests, frame[:4], frame[8:]))
            repeated = self._broker.groups.repeat(request_fingerprint)
            if repeated is not None:
                number, version, correlation_id = _START.unpack_from(frame)
                return correlation_id, version >= _REPEATED_FLEXIBLE_FROM[number], [repeated]
        header = decode_request_header(frame)
        route = self._routes.get(header.api_key)
        if route is None:
            check_served(header.api_key)
            route = self._load_and_handle
        version = header.api_version
        api_key = cast(ApiKey, header.api_key)
        lowest, highest = ACCEPTED_VERSIONS[api_key]
        if not lowest <= version <= highest:
            if api_key == ApiKey.API_VERSIONS:  # KIP-511: a version 0 response, so that the client can retry
                return header.correlation_id, False, self._downgraded_api_versions()
            name = ApiKey(api_key).name
            raise MalformedMessage(f"{name} version {version} is not served ({lowest} to {highest} are)")
        context = RequestContext(self._broker, connection, api_key, version, header.client_id, request_fingerprint)
        body = route(context, frame, header.end)
        if body is None:
            return None
        flexible_from = API_SPECS[api_key].flexible_from
        is_flexible = flexible_from is not None and version >= flexible_from and api_key != ApiKey.API_VERSIONS
        return header.correlation_id, is_flexible, body

    def connection_closed(self, connection: ConnectionInfo) -> None:
        """Releases the fetch sessions of a closed connection."""
        self._broker.fetch_sessions.leave(connection)

    def _load_and_handle(self, context: RequestContext, frame: memoryview, position: int) -> Body | PendingBody | None:
        """Handles the first request of an API.

        The import of its handler takes some milliseconds, and so does the first step of a large request. So a large
        request is handled in a later step. Several large requests take turns.
        """
        # A Fetch response may have records in files (`file_sending`), and must be sent in the step that creates it.
        if len(frame) <= SMALL_FRAME_BYTES or context.api_key == ApiKey.FETCH:
            return self._load_route(context.api_key)(context, frame, position)
        if len(frame) <= COPIED_FRAME_BYTES:
            frame = memoryview(bytes(frame))
        progress = Progress()
        return begin_later(self._load_in_steps(context, frame, position, progress), progress)

    def _load_in_steps(
        self, context: RequestContext, frame: memoryview, position: int, progress: Progress
    ) -> Work[Body | None]:
        route = self._load_route(context.api_key)
        yield None
        progress.may_stop = False
        body = route(context, frame, position)
        if isinstance(body, asyncio.Future):
            return (yield from wait_for(body))
        return body

    def _load_route(self, key: ApiKey) -> HandleFrame:
        route = self._routes.get(key)
        if route is not None:  # loaded while this request waited for its turn
            return route
        key = ApiKey(key)  # the key in the header is a plain number
        module = importlib.import_module(f"klamm.broker.handlers.{key.name.lower()}")
        route = cast(HandleFrame, getattr(module, "handle_frame", None) or CodecRoute(key, module).handle_frame)
        self._routes[key] = route
        return route

    def _downgraded_api_versions(self) -> Body:
        from klamm.broker.handlers.api_versions import unsupported_version_response

        return [encode(unsupported_version_response(), 0)]

"""From a frame to the handler of its API, and from the handler's answer to bytes.

Handlers are modules in `klamm.broker.handlers`, imported when their API is first asked for, so that a broker starts
in a blink. `CodecRoute` says what each offers. Produce and Fetch are the hot path: their modules offer
`handle_frame(context, view, position)` instead, with codecs of their own.

Heartbeats come in the same bytes again and again. The group coordinator is asked first whether it can repeat what it
answered to them (`runtime/reusable_answers.py`); only if it can't they are decoded.
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
"""The parts of an answer. One to Fetch may have parts in files, too: `file_sending` knows them."""
PendingBody: TypeAlias = "asyncio.Future[Body | None]"

# In the order of the API keys: what a broker of Apache Kafka serves without a receiver for clients' metrics (KIP-714).
# Programs tell by this list which version of Kafka a broker is.
SERVED: Final[tuple[ApiKey, ...]] = tuple(
    sorted(
        key
        for key, spec in API_SPECS.items()
        if "broker" in spec.listeners and key not in (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
    )
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

LONGEST_REPEATED: Final = 16 * 1024
"""Larger frames are not compared, which would take as long as they are large."""

HandleFrame: TypeAlias = "Callable[[RequestContext, memoryview, int], Body | PendingBody | None]"


def check_served(api_key: int) -> None:
    """Raises MalformedMessage for an API that is not served."""
    if api_key not in ACCEPTED_VERSIONS:
        raise MalformedMessage(f"API key {api_key} is not served")


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
        request_fingerprint = b""
        if START.size <= len(frame) <= LONGEST_REPEATED and frame[1] in REPEATED_FLEXIBLE_FROM and not frame[0]:
            request_fingerprint = b"".join((connection.name_in_requests, frame[:4], frame[8:]))
            repeated = self._broker.groups.repeat(request_fingerprint)
            if repeated is not None:
                number, version, correlation_id = START.unpack_from(frame)
                return correlation_id, version >= REPEATED_FLEXIBLE_FROM[number], [repeated]
        header = decode_request_header(frame)
        route = self._routes.get(header.api_key)
        if route is None:
            check_served(header.api_key)
            route = self._load_and_handle
        version = header.api_version
        api_key = cast(ApiKey, header.api_key)
        lowest, highest = ACCEPTED_VERSIONS[api_key]
        if not lowest <= version <= highest:
            if api_key == ApiKey.API_VERSIONS:  # KIP-511: answered in version 0, so that the client can ask again
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
        """Says that nothing more comes over a connection, and nobody waits for answers."""
        self._broker.fetch_sessions.leave(connection)

    def _load_and_handle(self, context: RequestContext, frame: memoryview, position: int) -> Body | PendingBody | None:
        """Handles the first request of an API.

        To import its handler takes some milliseconds, as the first step of a large request does. So a large one is
        handled in another step, and when several come at once, each has its turn.
        """
        # An answer to Fetch may have records in files (`file_sending`), and must be sent in the step that makes it.
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
        key = ApiKey(key)  # the header's is a plain number
        module = importlib.import_module(f"klamm.broker.handlers.{key.name.lower()}")
        route = cast(HandleFrame, getattr(module, "handle_frame", None) or CodecRoute(key, module).handle_frame)
        self._routes[key] = route
        return route

    def _downgraded_api_versions(self) -> Body:
        from klamm.broker.handlers.api_versions import unsupported_version_response

        return [encode(unsupported_version_response(), 0)]

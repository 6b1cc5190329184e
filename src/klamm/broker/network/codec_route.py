"""Serves requests with the generated codec: decodes a request, calls the handler of its API, encodes the response.

A handler module offers `handle(context, request)` and `error_response(request, version, code, message)`. `handle`
returns the response, an awaitable of it, or a `Work` that computes it in steps.

A frame of more than `SMALL_FRAME_BYTES` is decoded in steps, and a response that is not ready at once is encoded in
steps. If the module sets `PART_ELEMENTS`, its elements are independent: `handle` gets a larger request in parts of that
many elements, and the responses are merged. So no request blocks the event loop, however many elements it names.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from types import ModuleType
from typing import TYPE_CHECKING, Final, TypeAlias

from klamm.broker.time_slices import Progress, Work, begin, begin_large, finish_in_steps, free_later, wait_for
from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import Message, decode, encode
from klamm.protocol.codec_in_steps import decode_in_steps, encode_in_steps
from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.parts import Part, holds_more_than, merge, parts_of

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.broker.network.dispatch import Body, PendingBody

__all__ = ["COPIED_FRAME_BYTES", "SMALL_FRAME_BYTES", "CodecRoute"]

_logger = logging.getLogger(__name__)

Answer: TypeAlias = "Message | Awaitable[Message] | Work[Message]"

SMALL_FRAME_BYTES: Final = 4096
"""A frame up to this size is decoded at once. This takes less than a millisecond, whatever its content."""
COPIED_FRAME_BYTES: Final = 256 * 1024
"""A large frame up to this size is copied before it is decoded, because the shared buffer receives other frames
meanwhile. For a larger frame the connection keeps its own buffer."""
_LARGE_BYTES: Final = 32 * 1024
"""A message with more encoded bytes is freed in steps."""
_REFUSED_AT_ONCE: Final = 256
"""Number of elements of a large request that are refused in a step."""
_CHANGING: Final = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.JOIN_GROUP,
        ApiKey.LEAVE_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_GROUPS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.OFFSET_DELETE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
    }
)
"""Requests that change state. As in Kafka, they are finished even if the client disconnects. Other requests stop."""


class CodecRoute:
    """Decodes, handles and encodes the requests of one API."""

    def __init__(self, key: ApiKey, module: ModuleType) -> None:
        self._key = key
        self._request_class = API_SPECS[key].request_class()
        self._handle: Callable[[RequestContext, Message], Answer] = module.handle
        self._error_response: Callable[[Message, int, ErrorCode, str | None], Message] = module.error_response
        self._part_elements: int | None = getattr(module, "PART_ELEMENTS", None)

    def handle_frame(self, context: RequestContext, view: memoryview, position: int) -> Body | PendingBody | None:
        """Answers one request whose body begins at `position`, at once if that takes no longer than a step."""
        if len(view) > SMALL_FRAME_BYTES:
            return self._begin_large(context, view, position)
        request, _ = decode(self._request_class, context.api_version, view, position)
        count = self._part_elements
        if count is not None and len(view) > count and holds_more_than(request, count):
            return self._begin_work(context, request, self._decide_in_parts(context, request, count))
        try:
            answer = self._handle(context, request)
            if isinstance(answer, Message):
                return [encode(answer, context.api_version)]
        except MalformedMessage:
            raise
        except Exception as error:
            return self._refuse(context, request, error)
        if isinstance(answer, Generator):
            return self._begin_work(context, request, answer)
        return asyncio.ensure_future(self._finish(context, request, answer))

    async def _finish(self, context: RequestContext, request: Message, pending: Awaitable[Message]) -> Body:
        try:
            answer = await pending
            body = await finish_in_steps(encode_in_steps(answer, context.api_version))
        except Exception as error:
            return self._refuse(context, request, error)
        if _is_large(body):
            free_later(answer)
        return body

    def _begin_work(self, context: RequestContext, request: Message, work: Work[Message]) -> Body | PendingBody | None:
        progress = Progress()
        progress.may_stop = self._key not in _CHANGING
        return begin(self._finish_work(context, request, work), progress)

    def _finish_work(self, context: RequestContext, request: Message, work: Work[Message]) -> Work[Body]:
        try:
            answer = yield from work
            body = yield from encode_in_steps(answer, context.api_version)
        except MalformedMessage:
            raise
        except Exception as error:
            return self._refuse(context, request, error)
        if _is_large(body):
            free_later(answer)
        return body

    def _refuse(self, context: RequestContext, request: Message, error: Exception) -> Body:
        code, message = self._explain(context, error)
        return [encode(self._error_response(request, context.api_version, code, message), context.api_version)]

    def _explain(self, context: RequestContext, error: Exception) -> tuple[ErrorCode, str | None]:
        if isinstance(error, KafkaError):
            return error.code, error.message
        _logger.error("%s of %s failed", self._key.name, context.connection.peer, exc_info=error)
        return ErrorCode.UNKNOWN_SERVER_ERROR, None

    # -- large requests
    # --------------------------------------------------------------------------------------------------------------

    def _begin_large(self, context: RequestContext, view: memoryview, position: int) -> Body | PendingBody | None:
        if len(view) <= COPIED_FRAME_BYTES:
            view = memoryview(bytes(view))
        progress = Progress()
        return begin_large(self._serve(context, view, position, progress), progress)

    def _serve(self, context: RequestContext, view: memoryview, position: int, progress: Progress) -> Work[Body]:
        is_large = len(view) > _LARGE_BYTES
        request: Message | None = None
        answer: Message | None = None
        body: Body = []
        try:
            for decoded in decode_in_steps(self._request_class, context.api_version, view, position):
                request = decoded
                yield None
            assert request is not None
            del view
            progress.frame_is_read()
            progress.may_stop = self._key not in _CHANGING
            answer = yield from self._decide(context, request)
            progress.may_stop = True
            try:
                body = yield from encode_in_steps(answer, context.api_version)
            except Exception as error:
                answer = yield from self._refuse_in_parts(context, request, *self._explain(context, error))
                body = yield from encode_in_steps(answer, context.api_version)
            return body
        finally:
            if is_large or _is_large(body):
                free_later(request, answer)

    def _decide(self, context: RequestContext, request: Message) -> Work[Message]:
        if self._part_elements is not None:
            return (yield from self._decide_in_parts(context, request, self._part_elements))
        try:
            answer = self._handle(context, request)
            if isinstance(answer, Message):
                return answer
            return (yield from answer if isinstance(answer, Generator) else wait_for(answer))
        except MalformedMessage:
            raise
        except Exception as error:
            code, message = self._explain(context, error)
        # Outside the `except` block the error is freed, and with it the objects in the handler's frames.
        return (yield from self._refuse_in_parts(context, request, code, message))

    def _decide_in_parts(self, context: RequestContext, request: Message, count: int) -> Work[Message]:
        """Returns the merged responses to the parts. No part waits for the response to another."""
        begun: list[tuple[Part[Message], Message | Awaitable[Message] | Exception]] = []
        for part in parts_of(request, count):
            try:
                answer = self._handle(context, part.message)
                if isinstance(answer, Message):
                    begun.append((part, answer))
                elif isinstance(answer, Generator):
                    begun.append((part, (yield from answer)))
                else:
                    begun.append((part, asyncio.ensure_future(answer)))
            except MalformedMessage:
                raise
            except Exception as error:
                begun.append((part, error))
            yield None
        merged = None
        for part, pending in begun:
            done = pending
            if not isinstance(done, Message):
                done = yield from self._finish_part(context, part.message, done)
            if merged is None:
                merged = done
            else:
                merge(merged, done, part.continued)
            yield None
        assert merged is not None
        return merged

    def _finish_part(
        self, context: RequestContext, part: Message, answer: Awaitable[Message] | Exception
    ) -> Work[Message]:
        try:
            if isinstance(answer, Exception):
                raise answer
            return (yield from wait_for(answer))
        except Exception as error:
            code, message = self._explain(context, error)
            return self._error_response(part, context.api_version, code, message)

    def _refuse_in_parts(
        self, context: RequestContext, request: Message, code: ErrorCode, message: str | None
    ) -> Work[Message]:
        merged = None
        for part in parts_of(request, _REFUSED_AT_ONCE):
            answer = self._error_response(part.message, context.api_version, code, message)
            if merged is None:
                merged = answer
            else:
                merge(merged, answer, part.continued)
            yield None
        assert merged is not None
        return merged


def _is_large(body: Body) -> bool:
    return sum(map(len, body)) > _LARGE_BYTES

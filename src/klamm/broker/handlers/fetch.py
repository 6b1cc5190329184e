"""Fetch: returns record batches of many partitions, at once or when there are enough of them.

Versions 4 to 18: v5 log start offset, v7 fetch sessions (KIP-227), v9 the leader epoch that the client knows (KIP-320),
v11 rack, v12 flexible, last fetched epoch, v13 topic ids, v15 replica state, v16 leader hints and node endpoints,
v17 replica directory ids, v18 the follower's high watermark.

The broker sends batches as the log stores them, without opening them. A request that finds fewer bytes than its minimum
waits on its partitions; an append wakes it, and it reads again. The limits of a response follow Kafka's
`ReplicaManager.readFromLog`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from klamm.broker.partitions.fetch_answers import (
    FINAL_SESSION_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    INITIAL_SESSION_EPOCH,
    INVALID_SESSION_ID,
    begin_session,
    leaders_of,
    news_of,
)
from klamm.broker.partitions.fetch_read import FetchRead, Readable
from klamm.broker.partitions.fetch_sessions import CachedPartition, FetchSession, partitions_of
from klamm.broker.partitions.leader_hints import endpoints_of
from klamm.broker.partitions.read_result import PartitionAnswer, ReadResult
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartitionResponse, FetchRequest, FetchTopicResponse
from klamm.protocol.fetch_request_decoder import decode_fetch_request
from klamm.protocol.fetch_response_encoder import encode_fetch_response
from klamm.protocol.types import Offset, TopicId

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.broker.network.dispatch import Body, PendingBody

__all__ = ["handle_frame"]

_logger = logging.getLogger(__name__)

_ISOLATION_LEVELS: Final = (0, 1)
READ_AT_ONCE_BYTES: Final = 8192
"""Maximum size of a request decoded at once: in less than two milliseconds, whatever its content.

Most requests have a hundred bytes.
"""
MOST_AT_ONCE: Final = 256
"""Maximum number of partitions read in one step."""


def handle_frame(context: RequestContext, view: memoryview, position: int) -> Body | PendingBody | None:
    """Answers one Fetch request: at once, or when its minimum of bytes is available or its wait time has passed."""
    version = context.api_version
    if len(view) > READ_AT_ONCE_BYTES:
        from klamm.broker.partitions.wide_fetch import begin_wide_fetch  # rarely needed

        return begin_wide_fetch(context, view, position)
    request = decode_fetch_request(version, view, position)
    if request.isolation_level not in _ISOLATION_LEVELS:
        return _refuse(version, request, ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka does
    sessions = context.broker.fetch_sessions
    if request.session_epoch not in (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH):
        session = sessions.resume(
            request, version >= FIRST_VERSION_WITH_TOPIC_IDS, context.broker.clock(), context.connection
        )
        if isinstance(session, ErrorCode):
            return encode_fetch_response(version, session, INVALID_SESSION_ID, [])
        if session is not None:
            return _start(context, request, list(session.partitions.values()), session)
    elif request.session_id != INVALID_SESSION_ID:
        sessions.close(request.session_id)
    wanted = [CachedPartition(key, partition) for key, partition in partitions_of(request).items()]
    return _start(context, request, wanted, None)


def _start(
    context: RequestContext, request: FetchRequest, wanted: list[CachedPartition], session: FetchSession | None
) -> Body | PendingBody | None:
    if len(wanted) > MOST_AT_ONCE:
        from klamm.broker.partitions.wide_fetch import begin_wide_read

        return begin_wide_read(context, request, wanted, session)
    return _Fetch(context, request, wanted, session).start()


def _refuse(version: int, request: FetchRequest, code: ErrorCode) -> Body:
    """Returns a response with this error for the whole request. In versions with topic ids it names no partitions."""
    topics = [
        FetchTopicResponse(
            topic.name,
            topic.topic_id,
            [FetchPartitionResponse(partition.index, code, aborted_transactions=[]) for partition in topic.partitions],
        )
        for topic in request.topics
        if version < FIRST_VERSION_WITH_TOPIC_IDS
    ]
    return encode_fetch_response(version, code, INVALID_SESSION_ID, topics)


class _Fetch:
    """One Fetch request from its first read to its response. `session` is the fetch session that it continues."""

    __slots__ = (
        "_context",
        "_future",
        "_is_scheduled",
        "_missing_bytes",
        "_observed",
        "_read",
        "_request",
        "_session",
        "_session_epoch",
        "_stable_offsets",
        "_timer",
        "_wanted",
    )

    def __init__(
        self,
        context: RequestContext,
        request: FetchRequest,
        wanted: list[CachedPartition],
        session: FetchSession | None,
    ) -> None:
        self._context = context
        self._request = request
        self._wanted = wanted
        self._session = session
        self._session_epoch = session.epoch if session is not None else 0
        self._read = FetchRead.of_request(context, request)
        self._missing_bytes = 0
        self._observed: list[Readable] = []
        self._future: asyncio.Future[Body | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False
        self._stable_offsets: list[Offset] = []

    def start(self) -> Body | PendingBody:
        """Reads once, then answers or starts to wait."""
        result = self._read.read(self._wanted, to_send=True)
        if self._request.max_wait_ms <= 0 or self._is_enough(result):
            return self._answer(result.answers)
        loop = asyncio.get_running_loop()
        self._future = future = loop.create_future()
        self._timer = loop.call_later(self._request.max_wait_ms / 1000, self._complete)
        for cached in self._wanted:
            partition = self._read.find(cached)
            if partition is not None:
                self._read.observe(partition, self)
                self._observed.append(partition)
        future.add_done_callback(self._stop_waiting)
        self._wait_for_more(result)
        return future

    def _is_enough(self, result: ReadResult) -> bool:
        answers, size_bytes, is_final = result
        minimum_bytes = self._read.minimum_bytes
        return is_final or size_bytes >= minimum_bytes or self._read.reaches(minimum_bytes, answers)

    def _wait_for_more(self, result: ReadResult) -> None:
        self._missing_bytes = self._read.minimum_bytes - result.size_bytes
        if self._read.is_read_committed:
            self._stable_offsets = self._look_at_stable_offsets()
            if any(partition.log.last_stable_offset < partition.log.high_watermark for partition in self._observed):
                # A transaction marker of a few bytes may make any number of records visible.
                self._missing_bytes = 0

    def _look_at_stable_offsets(self) -> list[Offset]:
        return [partition.log.last_stable_offset for partition in self._observed]

    # -- while waiting: observer of the partitions
    # ------------------------------------------------------------------------------------

    def appended(self, size_bytes: int) -> None:
        """Counts appended bytes. Once they suffice, schedules a read in a later step of the event loop."""
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0 and not self._is_scheduled:
            self._is_scheduled = True
            self._context.broker.woken_fetches.add(self._look if self._read.is_read_committed else self._complete)

    def interrupted(self) -> None:
        """Schedules the response for a later step of the event loop, with the records that are readable then."""
        self._is_scheduled = True
        self._context.broker.woken_fetches.add(self._complete)

    def _look(self) -> None:
        """Answers a read_committed consumer if it sees enough: appended records may belong to open transactions."""
        self._is_scheduled = False
        future = self._future
        if future is None or future.done() or self._look_at_stable_offsets() == self._stable_offsets:
            return
        try:
            result = self._read.read(self._wanted)
            if self._is_enough(result):
                future.set_result(self._answer(result.answers))
            else:
                self._wait_for_more(result)
        except Exception as error:
            self._fail(future, error)

    def _complete(self) -> None:
        future = self._future
        if future is None or future.done():
            return
        try:
            future.set_result(self._answer(self._read.read(self._wanted).answers))
        except Exception as error:
            self._fail(future, error)

    def _fail(self, future: asyncio.Future[Body | None], error: Exception) -> None:
        """Fails this request with the error, which closes only its own connection."""
        _logger.exception("a fetch of %s failed", self._context.connection.peer)
        future.set_exception(error)

    def _stop_waiting(self, future: asyncio.Future[Body | None]) -> None:
        for partition in self._observed:
            partition.release(self)
        self._observed.clear()
        if self._timer is not None:
            self._timer.cancel()

    # -- answering

    def _answer(self, answers: Sequence[PartitionAnswer]) -> Body:
        session = self._session
        if session is None:
            session_id = begin_session(self._context, self._request, answers)
        else:
            session_id = session.session_id
            if session.epoch != self._session_epoch:
                code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
                return encode_fetch_response(self._context.api_version, code, session_id, [])
            session.is_awaited = False
            answers = news_of(session, answers)
        self._read.count_sent(answers)
        topics: list[FetchTopicResponse] = []
        partitions: list[FetchPartitionResponse] = []
        last_name: str | TopicId | None = None
        for cached, response in answers:
            name = cached.key[0]
            if name != last_name or not topics:
                last_name = name
                partitions = []
                if isinstance(name, str):
                    topics.append(FetchTopicResponse(name, None, partitions))
                else:
                    topics.append(FetchTopicResponse(None, TopicId(name), partitions))
            partitions.append(response)
        return encode_fetch_response(
            self._context.api_version,
            0,
            session_id,
            topics,
            node_endpoints=endpoints_of(self._context, leaders_of(self._request, answers)),
        )

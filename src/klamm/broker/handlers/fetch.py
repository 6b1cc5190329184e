"""Fetch: record batches of many partitions, now or as soon as there are enough of them.

Version 4 is the oldest served. 5 log start offset, 7 fetch sessions (KIP-227), 9 the leader epoch the client believes
in (KIP-320), 11 rack, 12 flexible, last fetched epoch, 13 topic ids, 15 replica state, 16 leader hints and node
endpoints, 17 replica directory ids, 18 the follower's high watermark.

Records are read as the log holds them and handed on unopened. A request that finds less than its minimum waits with
its partitions; an append wakes it, and it reads again. What one answer may hold follows Kafka's
`ReplicaManager.readFromLog`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from klamm.broker.fetch_sessions import CachedPartition, FetchSession
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.fetch import decode_fetch_request, encode_fetch_response
from klamm.protocol.fetch_messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopicResponse,
)
from klamm.protocol.types import Offset, TopicId

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext
    from klamm.broker.dispatch import Body, PendingBody
    from klamm.broker.partitions import LedTopic, Partition

__all__ = ["handle_frame"]

logger = logging.getLogger(__name__)

FINAL_SESSION_EPOCH: Final = -1
INITIAL_SESSION_EPOCH: Final = 0
INVALID_SESSION_ID: Final = 0
READ_COMMITTED: Final = 1
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
NO_OFFSET: Final = -1


def handle_frame(context: RequestContext, view: memoryview, position: int) -> Body | PendingBody | None:
    """Answers one Fetch request, at once or when its minimum of bytes has come or its time is up."""
    request = decode_fetch_request(context.api_version, view, position)
    version = context.api_version
    broker = context.broker
    uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
    session: FetchSession | None = None
    if request.session_epoch in (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH):
        if request.session_id != INVALID_SESSION_ID:
            broker.fetch_sessions.close(request.session_id)
        if request.session_epoch == INITIAL_SESSION_EPOCH and version >= 7:
            size = sum(len(topic.partitions) for topic in request.topics)
            session = broker.fetch_sessions.create(size, uses_topic_ids, broker.clock()) if size else None
            if session is not None:
                session.update(request)
        is_incremental = False
    else:
        resumed = broker.fetch_sessions.resume(request, uses_topic_ids, broker.clock())
        if isinstance(resumed, ErrorCode):
            return encode_fetch_response(version, resumed, INVALID_SESSION_ID, [])
        session = resumed
        is_incremental = session is not None
    if session is not None:
        wanted = list(session.partitions.values())
    else:
        wanted = [
            CachedPartition(
                (topic.topic_id if topic.topic_id is not None else topic.name or "", partition.index), partition
            )
            for topic in request.topics
            for partition in topic.partitions
        ]
    return _Fetch(context, request, wanted, session, is_incremental).start()


class _Fetch:
    """One Fetch request from its first read to its answer."""

    __slots__ = (
        "_context",
        "_future",
        "_is_incremental",
        "_is_scheduled",
        "_maximum_bytes",
        "_missing_bytes",
        "_observed",
        "_request",
        "_session",
        "_session_epoch",
        "_timer",
        "_wanted",
    )

    def __init__(
        self,
        context: RequestContext,
        request: FetchRequest,
        wanted: list[CachedPartition],
        session: FetchSession | None,
        is_incremental: bool,
    ) -> None:
        self._context = context
        self._request = request
        self._wanted = wanted
        self._session = session
        self._session_epoch = session.epoch if session is not None else 0
        self._is_incremental = is_incremental
        self._maximum_bytes = min(request.max_bytes, context.broker.config.fetch_max_bytes)
        self._missing_bytes = 0
        self._observed: list[Partition] = []
        self._future: asyncio.Future[Body | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False

    def start(self) -> Body | PendingBody:
        """Reads once; answers, or begins to wait."""
        responses, size_bytes, is_final = self._read()
        minimum_bytes = min(self._request.min_bytes, self._maximum_bytes)
        if is_final or size_bytes >= minimum_bytes or self._request.max_wait_ms <= 0 or not self._wanted:
            return self._answer(responses)
        self._missing_bytes = minimum_bytes - size_bytes
        loop = asyncio.get_running_loop()
        self._future = future = loop.create_future()
        self._timer = loop.call_later(self._request.max_wait_ms / 1000, self._complete)
        for cached in self._wanted:
            partition = self._find(cached)
            if partition is not None:
                partition.observe(self)
                self._observed.append(partition)
        future.add_done_callback(self._stop_waiting)
        return future

    # -- while it waits: the partitions' observer
    # ------------------------------------------------------------------------------------

    def appended(self, size_bytes: int) -> None:
        """Counts what came; when it is enough, reads again after everything else in this step of the loop."""
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self.interrupted()

    def interrupted(self) -> None:
        """Answers in the next step of the loop with what there is then."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._complete)

    def _complete(self) -> None:
        future = self._future
        if future is None or future.done():
            return
        try:
            responses, _, _ = self._read()
            future.set_result(self._answer(responses))
        except Exception as error:  # the connection is closed with this error and nothing else suffers
            logger.exception("a fetch of %s failed", self._context.connection.peer)
            future.set_exception(error)

    def _stop_waiting(self, future: asyncio.Future[Body | None]) -> None:
        for partition in self._observed:
            partition.release(self)
        self._observed.clear()
        if self._timer is not None:
            self._timer.cancel()

    # -- reading

    def _find(self, cached: CachedPartition) -> Partition | None:
        led = self._led_topic(cached)
        if led is None or cached.request.index >= len(led.partitions):
            return None
        return led.partitions[cached.request.index]

    def _led_topic(self, cached: CachedPartition) -> LedTopic | None:
        partitions = self._context.broker.partitions
        name = cached.key[0]
        return partitions.by_name.get(name) if isinstance(name, str) else partitions.by_id.get(TopicId(name))

    def _read(self) -> tuple[list[tuple[CachedPartition, FetchPartitionResponse]], int, bool]:
        """Reads every partition once.

        Returns the answers, their bytes, and whether waiting would be wrong.
        """
        responses: list[tuple[CachedPartition, FetchPartitionResponse]] = []
        left_bytes = self._maximum_bytes
        read_bytes = 0
        is_final = False
        for cached in self._wanted:
            try:
                response = self._read_partition(cached, max(0, left_bytes), minimum_one_batch=read_bytes == 0)
            except KafkaError as error:
                response = _error(cached.request, self._code_for_client(error.code))
                is_final = True
            size_bytes = _size_of(response)
            read_bytes += size_bytes
            left_bytes -= size_bytes
            responses.append((cached, response))
        return responses, read_bytes, is_final

    def _read_partition(
        self, cached: CachedPartition, left_bytes: int, *, minimum_one_batch: bool
    ) -> FetchPartitionResponse:
        wanted = cached.request
        led = self._led_topic(cached)
        if led is None:
            is_by_id = not isinstance(cached.key[0], str)
            raise KafkaError(ErrorCode.unknown_topic_id if is_by_id else ErrorCode.unknown_topic_or_partition)
        partition = led.get(wanted.index)
        if self._request.replica_id >= 0:
            raise KafkaError(
                ErrorCode.not_leader_or_follower, f"broker {self._request.replica_id} is no replica of {partition}"
            )
        partition.check_leader_epoch(wanted.current_leader_epoch)
        log = partition.log
        is_read_committed = self._request.isolation_level == READ_COMMITTED
        records = log.read(
            Offset(wanted.fetch_offset),
            min(wanted.partition_max_bytes, left_bytes),
            upper_bound=log.last_stable_offset if is_read_committed else log.high_watermark,
            minimum_one_batch=minimum_one_batch,
        )
        return FetchPartitionResponse(
            wanted.index,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            [] if is_read_committed else None,
            records=records,
        )

    def _code_for_client(self, code: ErrorCode) -> ErrorCode:
        """Clients of version 5 and older don't know KAFKA_STORAGE_ERROR; the other code makes them look for the
        leader again."""
        if code == ErrorCode.kafka_storage_error and self._context.api_version <= 5:
            return ErrorCode.not_leader_or_follower
        return code

    # -- answering

    def _answer(self, responses: Sequence[tuple[CachedPartition, FetchPartitionResponse]]) -> Body:
        version = self._context.api_version
        session = self._session
        if session is not None and session.epoch != self._session_epoch:
            return encode_fetch_response(version, ErrorCode.invalid_fetch_session_epoch, session.session_id, [])
        topics: list[FetchTopicResponse] = []
        partitions: list[FetchPartitionResponse] = []
        last_name: str | TopicId | None = None
        for cached, response in responses:
            has_records = _size_of(response) > 0
            must_respond = cached.must_respond(
                response.error_code, response.high_watermark, response.log_start_offset, has_records
            )
            if self._is_incremental and session is not None:
                if not must_respond:
                    continue
                if has_records and cached.key in session.partitions:  # who got something goes to the end of the queue
                    session.partitions.move_to_end(cached.key)
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
            version, 0, session.session_id if session is not None else INVALID_SESSION_ID, topics
        )


def _size_of(response: FetchPartitionResponse) -> int:
    records = response.records
    return len(records) if isinstance(records, bytes | memoryview) else 0


def _error(wanted: FetchPartition, code: ErrorCode) -> FetchPartitionResponse:
    return FetchPartitionResponse(wanted.index, code, NO_OFFSET, NO_OFFSET, NO_OFFSET, None, records=b"")

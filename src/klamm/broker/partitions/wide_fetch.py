"""Fetch of very many partitions: decoded, read and answered in steps.

A consumer may fetch thousands of partitions at a time, and a malicious client may name as many as fit into a frame.
The generated codec decodes such a request and encodes its response. `fetch_read.py` reads the partitions, some at a
time. A session begins with at most `WIDEST_SESSION` partitions; a client with more partitions fetches without one.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from klamm.broker.network.codec_route import COPIED_FRAME_BYTES
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
from klamm.broker.partitions.fetch_sessions import CachedPartition, FetchSession, PartitionKey
from klamm.broker.partitions.leader_hints import endpoints_of
from klamm.broker.partitions.read_result import PartitionAnswer, Reading, ReadResult
from klamm.broker.time_slices import Progress, Work, as_work, begin_large, free_later, wait_for
from klamm.protocol.codec_in_steps import decode_in_steps, encode_in_steps
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from klamm.protocol.schema import fetch_request, fetch_response
from klamm.protocol.types import ZERO_TOPIC_ID, TopicId

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.broker.network.dispatch import Body, PendingBody

__all__ = ["begin_wide_fetch", "begin_wide_read"]

PARTITIONS_AT_ONCE: Final = 50
"""Number of partitions that are read in a step."""
WIDEST_SESSION: Final = 10_000
"""Most partitions that a session takes over from a request or a response, in one step of three milliseconds."""
_ISOLATION_LEVELS: Final = (0, 1)


def begin_wide_fetch(context: RequestContext, view: memoryview, position: int) -> Body | PendingBody | None:
    """Answers a Fetch request that is too large to be decoded at once."""
    if len(view) <= COPIED_FRAME_BYTES:
        view = memoryview(bytes(view))
    progress = Progress()
    return begin_large(_serve(context, view, position, progress), progress)


def begin_wide_read(
    context: RequestContext, request: FetchRequest, wanted: list[CachedPartition], session: FetchSession | None
) -> Body | PendingBody | None:
    """Answers a decoded request for more partitions than should be read at once."""
    return begin_large(_WideFetch(context, request, wanted, session).work(), Progress())


def _serve(context: RequestContext, view: memoryview, position: int, progress: Progress) -> Work[Body | None]:
    version = context.api_version
    decoded = yield from as_work(decode_in_steps(fetch_request.FetchRequest, version, view, position))
    del view
    progress.frame_is_read()
    has_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
    if decoded.isolation_level not in _ISOLATION_LEVELS:
        return (yield from _refuse(decoded, version))
    request = yield from _request(decoded, has_ids)
    free_later(decoded)
    del decoded
    sessions = context.broker.fetch_sessions
    if request.session_epoch not in (INITIAL_SESSION_EPOCH, FINAL_SESSION_EPOCH):
        changes = 0
        for topic in request.topics:
            changes += len(topic.partitions)
            yield None
        for gone in request.forgotten:
            changes += len(gone.partitions)
            yield None
        if changes > WIDEST_SESSION:
            sessions.close(request.session_id)
        session = sessions.resume(request, has_ids, context.broker.clock(), context.connection)
        if isinstance(session, ErrorCode):
            return (yield from encode_in_steps(fetch_response.FetchResponse(error_code=session), version))
        if session is not None:
            wanted = list(session.partitions.values())
            return (yield from _WideFetch(context, request, wanted, session).work())
    elif request.session_id != INVALID_SESSION_ID:
        sessions.close(request.session_id)
    by_key: dict[PartitionKey, CachedPartition] = {}
    for topic in request.topics:
        name: str | TopicId = topic.topic_id if topic.topic_id is not None else topic.name or ""
        for partition in topic.partitions:
            key = name, partition.index
            by_key[key] = CachedPartition(key, partition)  # as in Kafka, the last entry of a partition counts
            yield None
        yield None
    return (yield from _WideFetch(context, request, list(by_key.values()), None).work())


def _request(decoded: fetch_request.FetchRequest, has_ids: bool) -> Work[FetchRequest]:
    """Converts the decoded request into the `FetchRequest` that the read code uses."""
    topics: list[FetchTopic] = []
    for topic in decoded.topics:
        partitions: list[FetchPartition] = []
        for each in topic.partitions:
            partitions.append(
                FetchPartition(
                    each.partition,
                    each.current_leader_epoch,
                    each.fetch_offset,
                    each.last_fetched_epoch,
                    each.log_start_offset,
                    each.partition_max_bytes,
                    each.replica_directory_id,
                    each.high_watermark,
                )
            )
            yield None
        topics.append(FetchTopic(*_name(topic.topic, topic.topic_id, has_ids), partitions))
        yield None
    forgotten: list[ForgottenTopic] = []
    for gone in decoded.forgotten_topics_data:
        forgotten.append(ForgottenTopic(*_name(gone.topic, gone.topic_id, has_ids), gone.partitions))
        yield None
    state = decoded.replica_state
    return FetchRequest(
        max(decoded.replica_id, state.replica_id),
        decoded.max_wait_ms,
        decoded.min_bytes,
        decoded.max_bytes,
        decoded.isolation_level,
        decoded.session_id,
        decoded.session_epoch,
        topics,
        forgotten,
        decoded.rack_id,
        decoded.cluster_id,
        state.replica_epoch,
    )


def _name(name: str, topic_id: bytes, has_ids: bool) -> tuple[str | None, TopicId | None]:
    return (None, TopicId(topic_id)) if has_ids else (name, None)


def _refuse(decoded: fetch_request.FetchRequest, version: int) -> Work[Body | None]:
    """Encodes the response that refuses the whole request. In versions with topic ids it names no partition."""
    response = fetch_response.FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    for topic in decoded.topics if version < FIRST_VERSION_WITH_TOPIC_IDS else ():
        refused = fetch_response.FetchableTopicResponse(topic=topic.topic)
        response.responses.append(refused)
        for each in topic.partitions:
            refusal = FetchPartitionResponse(each.partition, ErrorCode.UNKNOWN_SERVER_ERROR, aborted_transactions=[])
            refused.partitions.append(_partition_data(refusal))
            yield None
        yield None
    return (yield from encode_in_steps(response, version))


class _WideFetch:
    """One Fetch request from its first read to its response. `session` is the session that it continues, or None."""

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
        self._observed: list[Readable] = []
        self._arrived_bytes = 0
        """Bytes appended since the last read began. That read may have included some of them."""
        self._missing_bytes = 0
        self._is_interrupted = False
        self._woken: asyncio.Future[None] | None = None

    def work(self) -> Work[Body | None]:
        """Reads until the minimum of bytes is reached or `max_wait_ms` has passed, and returns the response."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._request.max_wait_ms / 1000
        try:
            if self._request.max_wait_ms > 0:
                # Observe before the read, so that no append during the read is missed.
                yield from self._observe()
            is_read_again = False
            while True:
                is_last = self._is_interrupted or loop.time() >= ends
                self._arrived_bytes = 0
                result = yield from self._read_all()
                is_enough = is_last or (yield from self._is_enough(result))
                if is_enough and not is_last and self._may_lack_what_arrived(result, is_read_again):
                    is_read_again = True
                    free_later(result.answers)
                    continue
                if is_enough:
                    body = yield from self._answer(result.answers)
                    free_later(result.answers)
                    while self._observed:
                        self._observed.pop().release(self)
                        yield None
                    return body
                read_bytes = result.size_bytes
                del result  # Free the memory: many requests may wait here for a long time.
                yield from self._wait_for_more(read_bytes, ends)
        finally:
            while self._observed:  # if the work was stopped
                self._observed.pop().release(self)

    def _observe(self) -> Work[None]:
        for cached in self._wanted:
            partition = self._read.find(cached)
            if partition is not None:
                self._read.observe(partition, self)
                self._observed.append(partition)
            yield None

    def _read_all(self) -> Work[ReadResult]:
        reading = Reading()
        for start in range(0, len(self._wanted), PARTITIONS_AT_ONCE):
            self._read.read_more(reading, self._wanted[start : start + PARTITIONS_AT_ONCE])
            yield None
        return reading.result()

    def _is_enough(self, result: ReadResult) -> Work[bool]:
        if result.is_final or result.size_bytes >= self._read.minimum_bytes:
            return True
        within_reach = 0
        for start in range(0, len(result.answers), PARTITIONS_AT_ONCE):
            within_reach += self._read.reach(result.answers[start : start + PARTITIONS_AT_ONCE])
            if within_reach >= self._read.minimum_bytes:
                return True
            yield None
        return False

    def _may_lack_what_arrived(self, result: ReadResult, is_read_again: bool) -> bool:
        """Returns whether the minimum is reached only with records that arrived after their partition was read.

        The next read has them. If records arrive all the time, the second read is enough unless it found none.
        """
        if result.is_final or result.size_bytes >= self._read.minimum_bytes or not self._arrived_bytes:
            return False
        return not is_read_again or not result.size_bytes

    def _wait_for_more(self, read_bytes: int, ends: float) -> Work[None]:
        loop = asyncio.get_running_loop()
        self._missing_bytes = self._read.minimum_bytes - read_bytes
        if self._read.is_read_committed:
            for partition in self._observed:
                if partition.log.last_stable_offset < partition.log.high_watermark:
                    # A marker of a few bytes may make any number of records visible.
                    self._missing_bytes = 1
                    break
                yield None
        if self._arrived_bytes < self._missing_bytes and not self._is_interrupted:
            self._woken = loop.create_future()
            yield from wait_for(_within(self._woken, ends - loop.time()))
            self._woken = None

    # -- while it waits: the partitions' observer ----------------------------------------------------------------------

    def appended(self, size_bytes: int) -> None:
        """Counts the appended bytes. When they reach the minimum, the request reads its partitions again."""
        self._arrived_bytes += size_bytes
        if self._arrived_bytes >= self._missing_bytes:
            self._wake()

    def interrupted(self) -> None:
        """Wakes the request, which then reads once more and answers."""
        self._is_interrupted = True
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    # -- answering

    def _answer(self, answers: list[PartitionAnswer]) -> Work[Body | None]:
        session = self._session
        version = self._context.api_version
        response = fetch_response.FetchResponse()
        if session is not None:
            response.session_id = session.session_id
            if session.epoch != self._session_epoch:
                response.error_code = ErrorCode.INVALID_FETCH_SESSION_EPOCH
                return (yield from encode_in_steps(response, version))
        elif len(answers) <= WIDEST_SESSION:
            response.session_id = begin_session(self._context, self._request, answers)
            yield None
        leaders: set[int] = set()
        for start in range(0, len(answers), PARTITIONS_AT_ONCE):
            some = answers[start : start + PARTITIONS_AT_ONCE]
            _add(response, some if session is None else news_of(session, some))
            leaders |= leaders_of(self._request, some)
            self._read.count_sent(some)
            yield None
        response.node_endpoints = [
            fetch_response.NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in endpoints_of(self._context, leaders)
        ]
        body = yield from encode_in_steps(response, version)
        if session is not None and session.epoch == self._session_epoch:
            session.is_awaited = False
        return body


def _add(response: fetch_response.FetchResponse, answers: list[PartitionAnswer]) -> None:
    """Adds answers for partitions. Successive partitions of one topic share an entry."""
    for cached, answer in answers:
        name = cached.key[0]
        is_name = isinstance(name, str)
        topic = response.responses[-1] if response.responses else None
        if topic is None or (topic.topic if is_name else topic.topic_id) != name:
            topic = fetch_response.FetchableTopicResponse(
                topic=name if isinstance(name, str) else "", topic_id=ZERO_TOPIC_ID if isinstance(name, str) else name
            )
            response.responses.append(topic)
        topic.partitions.append(_partition_data(answer))


def _partition_data(answer: FetchPartitionResponse) -> fetch_response.PartitionData:
    data = fetch_response.PartitionData(
        partition_index=answer.index,
        error_code=answer.error_code,
        high_watermark=answer.high_watermark,
        last_stable_offset=answer.last_stable_offset,
        log_start_offset=answer.log_start_offset,
        preferred_read_replica=answer.preferred_read_replica,
        records=answer.records,  # type: ignore[arg-type]  # the records are bytes or a view of them
    )
    aborted = answer.aborted_transactions
    data.aborted_transactions = (
        None
        if aborted is None
        else [
            fetch_response.AbortedTransaction(producer_id=producer_id, first_offset=offset)
            for producer_id, offset in aborted
        ]
    )
    if answer.diverging_epoch is not None:
        epoch, end_offset = answer.diverging_epoch
        data.diverging_epoch = fetch_response.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if answer.current_leader is not None:
        leader_id, leader_epoch = answer.current_leader
        data.current_leader = fetch_response.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    return data


async def _within(future: asyncio.Future[None], timeout_s: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await future

"""Fetch sessions (KIP-227): what a consumer asks for again and again is remembered, and only what changed is
answered.

The rules are those of Kafka's `FetchManager`, `FetchSession` and `FetchSessionCacheShard`.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, TypeAlias

from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartition, FetchPartitionResponse, FetchRequest
from klamm.protocol.types import Millis, TopicId

__all__ = ["CachedPartition", "FetchSession", "FetchSessionCache", "PartitionKey", "partitions_of"]

PartitionKey: TypeAlias = tuple[str | TopicId, int]

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
INVALID_SESSION_ID: Final = 0
HIGHEST_INT: Final = 2**31 - 1
EVICTION_MS: Final = 120_000
"""Kafka's `min.incremental.fetch.session.eviction.ms`: a session used within that time is not evicted for being
small."""


class CachedPartition:
    """One partition of a session: what is asked for, and what the client was last told."""

    __slots__ = ("high_watermark", "key", "log_start_offset", "request", "topic_name")

    def __init__(self, key: PartitionKey, request: FetchPartition) -> None:
        self.key = key
        self.request = request
        self.topic_name: str | None = None
        """The name that goes with the id, once it was known."""
        self.high_watermark = -1
        self.log_start_offset = -1

    def must_respond(self, response: FetchPartitionResponse, has_records: bool) -> bool:
        """Whether the partition belongs into the answer; remembers what the client is told thereby."""
        must = has_records or response.diverging_epoch is not None
        if self.high_watermark != response.high_watermark:
            self.high_watermark = response.high_watermark
            must = True
        if self.log_start_offset != response.log_start_offset:
            self.log_start_offset = response.log_start_offset
            must = True
        if response.error_code:
            self.high_watermark = -1  # so that the partition is sent again when the error is gone
            must = True
        return must


class FetchSession:
    """The partitions that one consumer fetches, in the order in which they are served."""

    __slots__ = ("created_ms", "epoch", "last_used_ms", "partitions", "session_id", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool, now: Millis) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now
        self.last_used_ms = now
        self.epoch = next_epoch(INITIAL_EPOCH)
        self.partitions: OrderedDict[PartitionKey, CachedPartition] = OrderedDict()

    def update(self, request: FetchRequest) -> None:
        """Takes over what an incremental request adds, changes and forgets."""
        for key, partition in partitions_of(request).items():
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(key, partition)
            else:
                cached.request = partition
        for topic_name, topic_id, indexes in request.forgotten:
            forgotten = topic_name if topic_id is None else topic_id
            assert forgotten is not None
            for index in indexes:
                self.partitions.pop((forgotten, index), None)


def partitions_of(request: FetchRequest) -> dict[PartitionKey, FetchPartition]:
    """What a request names, each partition once: the last word counts."""
    return {
        (topic.topic_id if topic.topic_id is not None else topic.name or "", partition.index): partition
        for topic in request.topics
        for partition in topic.partitions
    }


class FetchSessionCache:
    """A bounded number of sessions; a larger or fresher one may take the place of another.

    Not kept in sorted trees as Kafka does: an eviction scans the sessions, which happens only when the cache is full.
    """

    def __init__(self, maximum_sessions: int) -> None:
        self._maximum_sessions = maximum_sessions
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def resume(self, request: FetchRequest, uses_topic_ids: bool, now: Millis) -> FetchSession | ErrorCode | None:
        """The session that an incremental request goes on with, or the error for it; None when nothing is left in
        it."""
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.fetch_session_id_not_found
        if session.epoch != request.session_epoch:
            return ErrorCode.invalid_fetch_session_epoch
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.fetch_session_topic_id_error
        session.update(request)
        if not session.partitions:
            del self._sessions[session.session_id]
            return None
        session.last_used_ms = now
        session.epoch = next_epoch(session.epoch)
        return session

    def close(self, session_id: int) -> None:
        """Forgets a session: every full request closes the one it names."""
        self._sessions.pop(session_id, None)

    def create(self, partitions: Sequence[CachedPartition], uses_topic_ids: bool, now: Millis) -> FetchSession | None:
        """A new session with the partitions of an answer in its order; None when there is no room for it."""
        if len(self._sessions) >= self._maximum_sessions and not self._evict_for(len(partitions), now):
            return None
        session_id = random.randrange(1, HIGHEST_INT)
        while session_id in self._sessions:
            session_id = random.randrange(1, HIGHEST_INT)
        session = FetchSession(session_id, uses_topic_ids, now)
        session.partitions.update((partition.key, partition) for partition in partitions)
        self._sessions[session_id] = session
        return session

    def _evict_for(self, size: int, now: Millis) -> bool:
        if not self._sessions:
            return False
        stalest = min(self._sessions.values(), key=lambda session: session.last_used_ms)
        if now - stalest.last_used_ms > EVICTION_MS:
            del self._sessions[stalest.session_id]
            return True
        old = [
            session for session in self._sessions.values() if session.last_used_ms - session.created_ms > EVICTION_MS
        ]
        if not old:
            return False
        smallest = min(old, key=lambda session: len(session.partitions))
        if size < len(smallest.partitions):
            return False
        del self._sessions[smallest.session_id]
        return True


def next_epoch(epoch: int) -> int:
    """The epoch of a session's next request; it never comes back to 0, which would mean a new session."""
    return 1 if epoch == HIGHEST_INT else epoch + 1

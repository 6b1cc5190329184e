"""Fetch sessions (KIP-227): the broker remembers the partitions that a consumer fetches, and sends only changes.

The rules are those of Kafka's `FetchManager`, `FetchSession` and `FetchSessionCacheShard`. Sessions of followers are
privileged: they may evict those of consumers, but not the reverse. Two additions bound the memory. To a client they
look like an eviction, which can happen to any session in Kafka, too:

- The cache limits the partitions of all sessions together, in addition to the number of sessions.
- A session whose connection is closed is evicted first. It expires if it is not used for `EVICTION_MS`. A client that
  lost only an idle connection can resume its session over the next one. A client whose connection is closed while it
  waits for a response begins a new session (`FetchSessionHandler.handleError` of Kafka's clients), so its old session
  is removed at once.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartition, FetchPartitionResponse, FetchRequest
from klamm.protocol.types import Millis, TopicId

if TYPE_CHECKING:
    from klamm.broker.handler_context import ConnectionInfo
    from klamm.broker.partitions.unchanged_read import UnchangedRead

__all__ = ["CachedPartition", "FetchSession", "FetchSessionCache", "PartitionKey", "partitions_of"]

PartitionKey: TypeAlias = tuple[str | TopicId, int]

_INITIAL_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1
INVALID_SESSION_ID: Final = 0
_NO_OFFSET: Final = -1
_HIGHEST_INT: Final = 2**31 - 1
EVICTION_MS: Final = 120_000
"""Kafka's `min.incremental.fetch.session.eviction.ms`: a session that is unused for longer may be evicted. A session
evicts a smaller one in use only if that one was created longer ago."""
PARTITIONS_PER_SLOT: Final = 100
"""Partitions in the cache per slot of `max.incremental.fetch.session.cache.slots`, about 450 bytes each. A few sessions
may have more if others have fewer."""
_FREED_IN_A_STEP: Final = 1000


class CachedPartition:
    """One partition of a session: the client's request for it, and the last values that the client received."""

    __slots__ = ("high_watermark", "key", "log_start_offset", "request", "topic_name", "unchanged")

    def __init__(self, key: PartitionKey, request: FetchPartition) -> None:
        self.key = key
        self.request = request
        self.topic_name: str | None = None
        """The topic name of the id, once a lookup has found it."""
        self.high_watermark = -1
        self.log_start_offset = -1
        self.unchanged: UnchangedRead | None = None
        """The state in which the last read had no news; None if it had news."""

    def lacks_high_watermark(self, response: FetchPartitionResponse) -> bool:
        """Returns whether the answer raises the high watermark of the follower that sends the request."""
        wanted = self.request
        return wanted.high_watermark < min(response.high_watermark, wanted.fetch_offset)

    def lacks(self, response: FetchPartitionResponse) -> bool:
        """Returns whether the answer raises an offset of the follower that sends the request.

        An earlier answer may have had the same offsets. A follower drops an answer that arrives after it has learned of
        another leader epoch, or that makes it truncate its log. Only followers tell their offsets.
        """
        wanted = self.request
        return self.lacks_high_watermark(response) or (
            _NO_OFFSET < wanted.log_start_offset < min(response.log_start_offset, wanted.high_watermark)
        )

    def must_respond(self, response: FetchPartitionResponse, has_records: bool) -> bool:
        """Returns whether the response must include the partition. Remembers the values that the client receives."""
        must = has_records or response.diverging_epoch is not None or response.preferred_read_replica >= 0
        must = must or self.lacks(response)
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
    """The partitions that one consumer or follower fetches, in the order in which the broker reads them."""

    __slots__ = (
        "connection",
        "created_ms",
        "epoch",
        "is_awaited",
        "is_privileged",
        "last_used_ms",
        "partitions",
        "session_id",
        "uses_topic_ids",
    )

    def __init__(
        self, session_id: int, uses_topic_ids: bool, now: Millis, connection: ConnectionInfo, *, is_privileged: bool
    ) -> None:
        self.session_id = session_id
        self.is_privileged = is_privileged
        """Whether a follower has the session: no session of a consumer evicts it while it is used."""
        self.connection: ConnectionInfo | None = connection
        """The connection of the last request; None after it is closed."""
        self.is_awaited = False
        """Whether the last request is still pending."""
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now
        self.last_used_ms = now
        self.epoch = next_epoch(_INITIAL_EPOCH)
        self.partitions: OrderedDict[PartitionKey, CachedPartition] = OrderedDict()

    def update(self, request: FetchRequest) -> None:
        """Applies an incremental request: adds, changes and removes partitions."""
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
    """Returns the partitions of a request, each once: the last entry of a partition counts."""
    return {
        (topic.topic_id if topic.topic_id is not None else topic.name or "", partition.index): partition
        for topic in request.topics
        for partition in topic.partitions
    }


class FetchSessionCache:
    """The fetch sessions of all clients, bounded in sessions and partitions. A new session may evict others."""

    def __init__(self, maximum_sessions: int) -> None:
        self._maximum_sessions = maximum_sessions
        self._maximum_partitions = maximum_sessions * PARTITIONS_PER_SLOT
        self._sessions: dict[int, FetchSession] = {}
        """All sessions by id, least recently used first."""
        self._of_connection: dict[ConnectionInfo, dict[int, FetchSession]] = {}
        self._left: dict[int, FetchSession] = {}
        """Sessions whose connection is closed, by id, in the order of closing."""
        self._removed: list[CachedPartition] = []
        """Partitions of large removed sessions. Freeing them takes time, so `expire` does it in steps."""
        self.partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def resume(
        self, request: FetchRequest, uses_topic_ids: bool, now: Millis, connection: ConnectionInfo
    ) -> FetchSession | ErrorCode | None:
        """Returns the session that an incremental request continues, or an error code; None if the session is empty
        now and was closed.

        The code that answers the request then resets `is_awaited`. A session that has outgrown the cache is closed:
        its client begins a new session, or fetches without one.
        """
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        before = len(session.partitions)
        session.update(request)
        added = len(session.partitions) - before
        self.partition_count += added
        if not session.partitions:
            self._remove(session)
            return None
        self._use(session, now, connection)
        if added > 0 and not self._make_room(0, 0, now, is_privileged=session.is_privileged, keep=session):
            self._remove(session)
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        session.epoch = next_epoch(session.epoch)
        session.is_awaited = True
        return session

    def close(self, session_id: int) -> None:
        """Removes a session. Every full request closes the session that it names."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._remove(session)

    def create(
        self,
        partitions: Sequence[CachedPartition],
        uses_topic_ids: bool,
        now: Millis,
        connection: ConnectionInfo,
        *,
        is_privileged: bool = False,
    ) -> FetchSession | None:
        """Returns a new session with the partitions of a response, in its order; None if the cache has no room.

        `is_privileged`: a follower asks for the session.
        """
        if not self._make_room(1, len(partitions), now, is_privileged=is_privileged):
            return None
        session_id = random.randrange(1, _HIGHEST_INT)
        while session_id in self._sessions:
            session_id = random.randrange(1, _HIGHEST_INT)
        session = FetchSession(session_id, uses_topic_ids, now, connection, is_privileged=is_privileged)
        session.partitions.update((partition.key, partition) for partition in partitions)
        self.partition_count += len(session.partitions)
        self._sessions[session_id] = session
        self._of_connection.setdefault(connection, {})[session_id] = session
        return session

    def leave(self, connection: ConnectionInfo) -> None:
        """Keeps the sessions of a closed connection for a client that reconnects soon.

        Removes a session whose client was waiting for a response: the client will not resume it.
        """
        for session in list(self._of_connection.get(connection, {}).values()):
            if session.is_awaited:
                self._remove(session)
            else:
                self._disown(session)
                session.connection = None
                self._left[session.session_id] = session

    def expire(self, now: Millis) -> Iterator[None]:
        """Removes sessions whose client has not reconnected for `EVICTION_MS`, and frees their memory in steps."""
        for session in list(self._left.values()):
            if now - session.last_used_ms > EVICTION_MS and session.session_id in self._left:
                self._remove(session)
                yield
        while self._removed:
            del self._removed[-_FREED_IN_A_STEP:]
            yield

    def _use(self, session: FetchSession, now: Millis, connection: ConnectionInfo) -> None:
        session.last_used_ms = now
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        if session.connection is not connection:
            self._disown(session)
            session.connection = connection
            self._of_connection.setdefault(connection, {})[session.session_id] = session

    def _disown(self, session: FetchSession) -> None:
        if session.connection is None:
            self._left.pop(session.session_id, None)
        else:
            owned = self._of_connection[session.connection]
            del owned[session.session_id]
            if not owned:
                del self._of_connection[session.connection]

    def _remove(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        self._disown(session)
        self.partition_count -= len(session.partitions)
        if len(session.partitions) > _FREED_IN_A_STEP:
            self._removed.extend(session.partitions.values())

    def _make_room(
        self, sessions: int, partitions: int, now: Millis, *, is_privileged: bool, keep: FetchSession | None = None
    ) -> bool:
        """Evicts sessions, except `keep`, until this number of sessions and partitions has room.

        Returns False, and evicts nothing, if there would not be enough room. A follower's session may have any number
        of partitions, because it grows with each request, and its partitions are those that the follower copies. So it
        evicts no other follower to have room for partitions.
        """
        spare_sessions = self._maximum_sessions - len(self._sessions) - sessions
        spare_partitions = self._maximum_partitions - self.partition_count - partitions
        if spare_sessions >= 0 and spare_partitions >= 0:
            return True
        evicted: dict[int, FetchSession] = {}
        size = partitions if keep is None else len(keep.partitions)
        for session in self._least_valuable(size, now, is_privileged=is_privileged):
            if session is keep or session.session_id in evicted:
                continue
            if is_privileged and session.is_privileged and spare_sessions >= 0:
                continue
            evicted[session.session_id] = session
            spare_sessions += 1
            spare_partitions += len(session.partitions)
            if spare_sessions >= 0 and spare_partitions >= 0:
                break
        else:
            if not is_privileged or spare_sessions < 0:
                return False
        for session in evicted.values():
            self._remove(session)
        return True

    def _least_valuable(self, size: int, now: Millis, *, is_privileged: bool) -> Iterator[FetchSession]:
        """Yields the sessions that a session of `size` partitions may replace, the least valuable first."""
        yield from self._left.values()
        for session in self._sessions.values():
            if now - session.last_used_ms <= EVICTION_MS:
                break
            yield session
        if is_privileged:
            yield from sorted((each for each in self._sessions.values() if not each.is_privileged), key=_size)
        old = [
            session
            for session in self._sessions.values()
            if session.is_privileged is is_privileged
            and session.last_used_ms - session.created_ms > EVICTION_MS
            and len(session.partitions) <= size
        ]
        yield from sorted(old, key=_size)


def _size(session: FetchSession) -> int:
    return len(session.partitions)


def next_epoch(epoch: int) -> int:
    """Returns the epoch of a session's next request. It never returns to 0, which would mean a new session."""
    return 1 if epoch == _HIGHEST_INT else epoch + 1

"""Tests fetch sessions: which clients get and keep a session, and the limit for all sessions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from klamm.broker.handler_context import ConnectionInfo, RequestContext
from klamm.broker.partitions.fetch_answers import INITIAL_SESSION_EPOCH, INVALID_SESSION_ID, begin_session
from klamm.broker.partitions.fetch_sessions import (
    EVICTION_MS,
    PARTITIONS_PER_SLOT,
    CachedPartition,
    FetchSession,
    FetchSessionCache,
)
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from klamm.protocol.types import BrokerId, Millis

SLOTS = 4
LATER = EVICTION_MS + 1


def a_connection() -> ConnectionInfo:
    return ConnectionInfo("10.0.0.1", "10.0.0.1:5", "here", 9092)


def partitions(count: int, first: int = 0) -> list[FetchPartition]:
    return [FetchPartition(index, -1, 0, -1, -1, 1000) for index in range(first, first + count)]


class Clients:
    """A cache with its clock, and the requests of clients to the cache."""

    def __init__(self) -> None:
        self.cache = FetchSessionCache(SLOTS)
        self.now = 0
        self.connection = a_connection()

    def create(
        self, count: int, connection: ConnectionInfo | None = None, *, is_follower: bool = False
    ) -> FetchSession | None:
        cached = [CachedPartition(("events", each.index), each) for each in partitions(count)]
        connection = connection or self.connection
        return self.cache.create(cached, False, Millis(self.now), connection, is_privileged=is_follower)

    def created(
        self, count: int, connection: ConnectionInfo | None = None, *, is_follower: bool = False
    ) -> FetchSession:
        session = self.create(count, connection, is_follower=is_follower)
        assert session is not None
        return session

    def resume(
        self,
        session: FetchSession,
        *,
        added: list[FetchPartition] | None = None,
        forgotten: list[int] | None = None,
        connection: ConnectionInfo | None = None,
    ) -> FetchSession | ErrorCode | None:
        topics = [FetchTopic("events", None, added)] if added else []
        gone = [ForgottenTopic("events", None, forgotten)] if forgotten else []
        request = FetchRequest(-1, 0, 0, 0, 0, session.session_id, session.epoch, topics, gone)
        return self.cache.resume(request, False, Millis(self.now), connection or self.connection)

    def is_there(self, session: FetchSession) -> bool:
        return self.resume(session) is session

    def expire(self) -> None:
        for _ in self.cache.expire(Millis(self.now)):
            pass


@pytest.fixture
def clients() -> Clients:
    return Clients()


def test_sessions_that_are_in_use_are_not_evicted_for_others(clients: Clients) -> None:
    """A new client gets no session while all sessions are recent and in use, as in Kafka."""
    sessions = [clients.created(2) for _ in range(SLOTS)]
    assert clients.create(50) is None
    assert all(clients.is_there(session) for session in sessions)


def test_a_session_that_was_not_used_for_two_minutes_makes_room(clients: Clients) -> None:
    """The session that was unused for the longest time, at least two minutes, is evicted for a new one."""
    first, second, *others = [clients.created(2) for _ in range(SLOTS)]
    clients.now = LATER
    for session in (first, *others):
        clients.resume(session)
    clients.created(1)
    assert clients.resume(second) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert clients.is_there(first)


def test_a_smaller_session_makes_room_once_it_is_old(clients: Clients) -> None:
    """The smallest session is evicted once it is old, but not for a smaller new session."""
    small, *others = [clients.created(size) for size in (3, 4, 4, 4)]
    clients.now = LATER
    for session in (small, *others):
        clients.resume(session)
    assert clients.create(2) is None
    clients.created(3)
    assert clients.resume(small) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert all(clients.is_there(session) for session in others)


def test_a_follower_takes_the_place_of_the_smallest_consumer(clients: Clients) -> None:
    """Without a session, a follower names all its partitions in each request. So its session may evict that of a
    consumer, also one that is new, in use, or larger."""
    small, *others = [clients.created(size) for size in (3, 4, 4, 4)]
    follower = clients.created(1, is_follower=True)
    assert clients.resume(small) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert all(clients.is_there(session) for session in (follower, *others))


@pytest.mark.parametrize(("broker_id", "is_follower"), [(2, True), (3, False), (None, False)])
def test_only_a_sender_that_has_shown_its_id_is_a_follower(
    clients: Clients, broker_id: int | None, *, is_follower: bool
) -> None:
    """A client may send a replica id, too. Otherwise it could evict the sessions of all other clients."""
    for size in (3, 4, 4, 4):
        clients.created(size)
    clients.connection.broker_id = None if broker_id is None else BrokerId(broker_id)
    broker = SimpleNamespace(fetch_sessions=clients.cache, clock=lambda: Millis(clients.now))
    context = SimpleNamespace(broker=broker, connection=clients.connection, api_version=12)
    request = FetchRequest(2, 0, 0, 0, 0, INVALID_SESSION_ID, INITIAL_SESSION_EPOCH, [], [])
    assert (begin_session(cast(RequestContext, context), request, []) != INVALID_SESSION_ID) is is_follower


def test_a_consumer_evicts_no_follower_that_fetches(clients: Clients) -> None:
    """The session of a follower stays, however old and small it is. As in Kafka, an unused one makes room."""
    followers = [clients.created(1, is_follower=True) for _ in range(SLOTS)]
    clients.now = LATER
    for session in followers:
        assert clients.is_there(session)
    assert clients.create(50) is None
    assert all(clients.is_there(session) for session in followers)
    clients.now += LATER
    assert clients.create(50) is not None
    assert clients.resume(followers[0]) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_follower_takes_the_place_of_another_as_consumers_do(clients: Clients) -> None:
    """Among followers, a session evicts a smaller one that is old."""
    small, *others = [clients.created(size, is_follower=True) for size in (3, 4, 4, 4)]
    assert clients.create(50, is_follower=True) is None
    clients.now = LATER
    for session in (small, *others):
        clients.resume(session)
    assert clients.create(2, is_follower=True) is None
    assert clients.create(3, is_follower=True) is not None
    assert clients.resume(small) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_of_a_follower_grows_at_the_cost_of_consumers(clients: Clients) -> None:
    """A consumer that grows beyond the limit loses its session, a follower takes the room of consumers."""
    limit = SLOTS * PARTITIONS_PER_SLOT
    follower, consumer = clients.created(10, is_follower=True), clients.created(limit - 20)
    assert clients.resume(follower, added=partitions(20, 10)) is follower
    assert clients.resume(consumer) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    consumer = clients.created(limit - 30)
    assert clients.resume(consumer, added=partitions(1, limit)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert clients.is_there(follower)


def test_a_session_of_a_follower_may_outgrow_the_cache(clients: Clients) -> None:
    """A follower begins its session with some of its partitions, and adds the others. If the session ended then, the
    follower would begin again with the same ones, and never copy the others."""
    limit = SLOTS * PARTITIONS_PER_SLOT
    other, follower = clients.created(5, is_follower=True), clients.created(limit - 5, is_follower=True)
    clients.now = LATER
    assert clients.is_there(other)
    assert clients.resume(follower, added=partitions(100, limit)) is follower
    assert clients.is_there(other)
    assert clients.cache.partition_count == limit + 100
    assert clients.create(1) is None
    clients.created(limit, is_follower=True)


def test_all_sessions_together_have_so_many_partitions(clients: Clients) -> None:
    """All sessions together have a limit of partitions; one large session may use what is free, and a session beyond
    the limit is refused."""
    limit = SLOTS * PARTITIONS_PER_SLOT
    assert clients.create(limit + 1) is None
    large = clients.created(limit - 10)
    assert clients.create(11) is None
    small = clients.created(10)
    assert clients.cache.partition_count == limit
    clients.cache.close(large.session_id)
    assert clients.cache.partition_count == 10
    assert clients.resume(small, forgotten=list(range(10))) is None
    assert (clients.cache.partition_count, len(clients.cache)) == (0, 0)


def test_a_session_that_outgrows_the_cache_ends(clients: Clients) -> None:
    """A session may grow while there is room or disconnected sessions can be evicted; beyond that, the session ends."""
    limit = SLOTS * PARTITIONS_PER_SLOT
    gone = a_connection()
    growing, left, other = clients.created(10), clients.created(100, gone), clients.created(100)
    clients.cache.leave(gone)
    assert clients.resume(growing, added=partitions(limit - 210, 10)) is growing
    assert clients.cache.partition_count == limit
    assert clients.resume(growing, added=partitions(1, limit)) is growing
    assert clients.cache.partition_count == limit - 99
    assert clients.resume(left) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert clients.resume(growing, added=partitions(100, 2 * limit)) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert clients.cache.partition_count == 100
    assert clients.is_there(other)


def test_the_sessions_of_a_client_that_has_gone_make_room_first(clients: Clients) -> None:
    """Sessions of disconnected clients are evicted first, as many as needed."""
    gone = a_connection()
    left = [clients.created(100, gone) for _ in range(3)]
    kept = clients.created(1)
    clients.cache.leave(gone)
    clients.created(250)
    assert [clients.resume(session) for session in left[:2]] == [ErrorCode.FETCH_SESSION_ID_NOT_FOUND] * 2
    assert clients.is_there(left[2])
    assert clients.is_there(kept)


def test_a_client_that_comes_back_goes_on_with_its_session(clients: Clients) -> None:
    """A client may continue its session over another connection, as in Kafka, and the session then belongs to that
    connection."""
    before, after = a_connection(), a_connection()
    session = clients.created(10, before)
    clients.cache.leave(before)
    clients.now = LATER - 1
    clients.expire()
    assert clients.resume(session, connection=after) is session
    clients.cache.leave(before)
    clients.now += LATER
    clients.expire()
    assert clients.resume(session, connection=after) is session
    clients.cache.leave(after)
    clients.now += LATER
    clients.expire()
    assert (len(clients.cache), clients.cache.partition_count) == (0, 0)


def test_a_client_that_goes_before_its_answer_does_not_come_back(clients: Clients) -> None:
    """A client that disconnects during a request loses its session at once; a session without a pending request
    stays."""
    gone = a_connection()
    waiting, answered = clients.created(10, gone), clients.created(50, gone)
    for session in (waiting, answered):
        assert clients.resume(session, connection=gone) is session
    answered.is_awaited = False
    clients.cache.leave(gone)
    assert clients.cache.partition_count == 50
    assert clients.resume(waiting) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert clients.is_there(answered)


def test_what_nobody_comes_back_for_is_freed(clients: Clients) -> None:
    """A session of a closed connection is freed two minutes after its last use; a session with an open connection
    stays."""
    gone = a_connection()
    resting, left = clients.created(10), clients.created(50, gone)
    clients.now = 1000
    clients.cache.leave(gone)
    clients.now = EVICTION_MS
    clients.expire()
    assert clients.cache.partition_count == 60
    clients.now += 1
    clients.expire()
    assert clients.cache.partition_count == 10
    assert clients.resume(left) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert clients.is_there(resting)

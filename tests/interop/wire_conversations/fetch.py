"""Conversations about Fetch: records, errors and fetch sessions."""

from __future__ import annotations

from typing import Any

from tests.interop.wire_conversations.batches import TIME, batch
from tests.interop.wire_conversations.peer import Topic
from tests.interop.wire_conversations.talk import Talk, conversation

from klamm.protocol.api import ApiKey
from klamm.protocol.compression import Compression
from klamm.protocol.schema.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from klamm.protocol.schema.fetch_response import FetchResponse

STRANGE = Topic("wire-strange", b"\x07" * 16)  # type: ignore[arg-type]  # a test's id
SESSIONS_SINCE = 7
LARGE = 10_000_000


def part(index: int = 0, offset: int = 0, *, max_bytes: int = LARGE, **fields: Any) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)


def wanted(topic: Topic, *partitions: FetchPartition) -> FetchTopic:
    return FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=list(partitions))


def fetch(talk: Talk, *topics: FetchTopic, forgotten: tuple[ForgottenTopic, ...] = (), **fields: Any) -> FetchResponse:
    fields.setdefault("max_bytes", LARGE)
    request = FetchRequest(topics=list(topics), forgotten_topics_data=list(forgotten), **fields)
    response = talk.ask(request)
    assert isinstance(response, FetchResponse)
    return response


def shared(talk: Talk) -> tuple[Topic, Topic]:
    """Returns a topic with three batches of at least 71 bytes in partition 0, and an empty topic."""
    batches = (batch(b"a", b"b"), batch(b"c" * 100), batch(b"d", b"e", b"f"))
    return talk.shared_topic("full", 3, *batches), talk.shared_topic("empty", 2)


@conversation(ApiKey.FETCH)
def fetch_from_offsets(talk: Talk) -> None:
    """Fetches from the beginning, from within a batch, at the end, beyond the end, before the start, and from empty
    partitions."""
    topic, empty = shared(talk)
    for offset in (0, 1, 2, 5, 6, 7, 100, -1, -2, 2**62):
        fetch(talk, wanted(topic, part(0, offset)))
    fetch(talk, wanted(topic, part(1, 0)))
    fetch(talk, wanted(topic, part(1, 1)))
    fetch(talk, wanted(empty, part(1, 0)), wanted(topic, part(2, 0), part(0, 3)))
    fetch(talk)


@conversation(ApiKey.FETCH)
def fetch_what_is_not_there(talk: Talk) -> None:
    """Fetches unknown topics and partitions, alone and together with known ones."""
    topic, _ = shared(talk)
    fetch(talk, wanted(STRANGE, part()))
    fetch(talk, wanted(topic, part(9)))
    fetch(talk, wanted(topic, part(-1)))
    fetch(talk, wanted(STRANGE, part(1), part(0)), wanted(topic, part(9), part(0, 2)), max_wait_ms=10_000, min_bytes=1)
    fetch(talk, wanted(topic, part()), wanted(topic, part(1)))
    fetch(talk, wanted(topic, part(), part(0, 2)))
    nobody = Topic(topic.name, bytes(16))  # type: ignore[arg-type]  # no id
    fetch(talk, wanted(nobody, part()))
    fetch(talk, wanted(Topic("", STRANGE.topic_id), part()))
    fetch(talk, wanted(topic))


@conversation(ApiKey.FETCH, since=9)
def fetch_with_leader_epochs(talk: Talk) -> None:
    """Fetches with the current leader epoch, older and newer ones, and with the last fetched epoch (KIP-320,
    KIP-595)."""
    topic, _ = shared(talk)
    for epoch in (-1, 0, 1, -2, 99):
        fetch(talk, wanted(topic, part(0, 2, current_leader_epoch=epoch)))
    for last in (-1, 0, 1, 5, -2):
        fetch(talk, wanted(topic, part(0, 2, last_fetched_epoch=last)))
        fetch(talk, wanted(topic, part(0, 6, last_fetched_epoch=last)))
        fetch(talk, wanted(topic, part(0, 77, last_fetched_epoch=last)))
    fetch(talk, wanted(topic, part(0, 2, current_leader_epoch=0, last_fetched_epoch=0)))


@conversation(ApiKey.FETCH)
def fetch_within_bytes(talk: Talk) -> None:
    """Fetches with byte limits for the response and for a partition; the response has at least the first available
    batch."""
    topic, _ = shared(talk)
    two = talk.shared_topic("second", 2, batch(b"x" * 50), batch(b"y" * 50))
    for limit in (0, 1, 60, 61, 78, 79, 80, 150, 400, 2**31 - 1):
        fetch(talk, wanted(topic, part(max_bytes=limit)))
        fetch(talk, wanted(topic, part()), wanted(two, part()), max_bytes=limit)
        fetch(talk, wanted(topic, part(1), part(0, 2, max_bytes=limit)), wanted(two, part(max_bytes=limit)))


@conversation(ApiKey.FETCH)
def fetch_at_isolation_levels(talk: Talk) -> None:
    """Fetches with read_committed from a topic without transactions, and with invalid isolation levels."""
    topic, empty = shared(talk)
    for level in (0, 1, 2, -1):
        fetch(talk, wanted(topic, part(0, 2)), wanted(empty, part()), isolation_level=level)
    fetch(talk, wanted(topic, part(9)), isolation_level=1)


@conversation(ApiKey.FETCH)
def fetch_as_a_replica(talk: Talk) -> None:
    """Fetches with the replica ids of brokers, and with the replica id of a debugging consumer."""
    topic, _ = shared(talk)
    for replica in (-1, -2, -3, 1, 2, 7):
        state = ReplicaState(replica_id=replica, replica_epoch=-1)
        fetch(talk, wanted(topic, part()), replica_id=replica, replica_state=state)


@conversation(ApiKey.FETCH, since=11)
def fetch_with_other_fields(talk: Talk) -> None:
    """Fetches with a rack, a cluster id, the client's log start offset, a replica's directory and a high watermark."""
    topic, _ = shared(talk)
    fetch(talk, wanted(topic, part(0, 5)), rack_id="r", cluster_id="another")
    fetch(talk, wanted(topic, part(0, 5, log_start_offset=3)))
    if talk.version >= 18:
        fetch(talk, wanted(topic, part(0, 5, replica_directory_id=STRANGE.topic_id, high_watermark=4)))


@conversation(ApiKey.FETCH)
def fetch_and_wait(talk: Talk) -> None:
    """Waits a short time for records that don't arrive; requests that need no wait are answered at once."""
    topic, empty = shared(talk)
    fetch(talk, wanted(empty, part()), max_wait_ms=50, min_bytes=1)
    fetch(talk, wanted(empty, part()), max_wait_ms=60_000, min_bytes=0)
    fetch(talk, wanted(empty, part()), max_wait_ms=0, min_bytes=1)
    fetch(talk, wanted(empty, part()), max_wait_ms=-5, min_bytes=1)
    fetch(talk, wanted(empty, part()), max_wait_ms=60_000, min_bytes=-1)
    fetch(talk, wanted(empty, part(0, 5)), wanted(topic, part(1)), max_wait_ms=60_000, min_bytes=100)
    fetch(talk, wanted(topic, part(0, 2)), max_wait_ms=50, min_bytes=LARGE)
    fetch(talk, max_wait_ms=60_000, min_bytes=1)
    fetch(talk, wanted(topic, part(0, 0)), max_wait_ms=60_000, min_bytes=LARGE, max_bytes=79)


@conversation(ApiKey.FETCH)
def fetch_and_be_woken(talk: Talk) -> None:
    """Waits for records until appends reach the minimum bytes.

    Only the size of the records is compared, because Apache Kafka may return the high watermark from before the append.
    """
    topic = talk.topic("a")
    waiting = talk.another()
    waiting.transcript = []

    def wait_for(minimum: int, *batches: bytes) -> None:
        request = FetchRequest(topics=[wanted(topic, part())], max_bytes=LARGE, max_wait_ms=60_000, min_bytes=minimum)
        waiting.tell(request)
        talk.append(topic, *batches)
        response = waiting.hear(request)
        assert isinstance(response, FetchResponse)
        records = response.responses[0].partitions[0].records
        talk.note("bytes when woken", len(records or b""))

    wait_for(1, batch(b"a"))
    wait_for(200, batch(b"b"), batch(b"c"))


@conversation(ApiKey.FETCH)
def fetch_compressed(talk: Talk) -> None:
    """Fetches batches of all codecs, also with versions that don't support a codec (KIP-110)."""
    topic = talk.shared_topic("a", 1, *(batch(b"v" * 200, compression=codec, timestamp=TIME) for codec in Compression))
    for offset in range(5):
        fetch(talk, wanted(topic, part(0, offset)))


@conversation(ApiKey.FETCH, since=SESSIONS_SINCE)
def fetch_in_a_session(talk: Talk) -> None:
    """Begins a fetch session, continues it without and with changes, adds and forgets partitions, and ends it
    (KIP-227)."""
    topic, empty = talk.topic("a", 3), shared(talk)[1]
    talk.append(topic, batch(b"a"))
    session = fetch(talk, wanted(topic, part(), part(1)), wanted(empty, part()), session_epoch=0).session_id
    epoch = 1

    def go_on(*topics: FetchTopic, forgotten: tuple[ForgottenTopic, ...] = ()) -> None:
        nonlocal epoch
        fetch(talk, *topics, forgotten=forgotten, session_id=session, session_epoch=epoch)
        epoch += 1

    def forget(of: Topic, *indexes: int) -> ForgottenTopic:
        return ForgottenTopic(topic=of.name, topic_id=of.topic_id, partitions=list(indexes))

    go_on()
    go_on(wanted(topic, part(0, 1)))
    go_on()
    talk.append(topic, batch(b"b"))
    talk.append(topic, batch(b"c"), index=1)
    go_on()
    go_on(wanted(topic, part(0, 2), part(1, 1)))
    talk.delete_records(topic, 1)
    go_on()
    go_on(wanted(topic, part(2)))
    go_on(wanted(topic, part(2, 7)))
    go_on()
    go_on(wanted(topic, part(2, 0)))
    go_on(forgotten=(forget(topic, 0, 9), forget(empty, 0)))
    talk.append(topic, batch(b"d"))
    go_on()
    go_on(wanted(topic, part(0, 2)))
    go_on(wanted(topic, part(1, 0)), forgotten=(forget(topic, 1),))
    go_on(wanted(topic, part(9), part(1, 0)))
    go_on(wanted(STRANGE, part()))
    go_on()
    go_on(forgotten=(forget(STRANGE, 0), forget(topic, 9)))
    fetch(talk, session_id=session, session_epoch=-1)
    go_on()


@conversation(ApiKey.FETCH, since=SESSIONS_SINCE)
def fetch_in_wrong_sessions(talk: Talk) -> None:
    """Fetches with old and future session epochs, with unknown sessions, without one, and in a session without
    partitions."""
    topic, _ = shared(talk)
    session = fetch(talk, wanted(topic, part(0, 5)), session_epoch=0).session_id
    fetch(talk, session_id=session, session_epoch=2)
    fetch(talk, session_id=session, session_epoch=1)
    fetch(talk, session_id=session, session_epoch=1)
    fetch(talk, wanted(topic, part(0, 5)), session_id=session, session_epoch=7)
    fetch(talk, session_id=1, session_epoch=5)
    fetch(talk, session_id=0, session_epoch=5)
    fetch(talk, session_id=-1, session_epoch=1)
    fetch(talk, session_id=session, session_epoch=-7)
    forgotten = ForgottenTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[0])
    fetch(talk, forgotten=(forgotten,), session_id=session, session_epoch=2)
    fetch(talk, session_id=session, session_epoch=3)
    session = fetch(talk, wanted(topic, part(0, 5)), session_epoch=0).session_id
    fetch(talk, wanted(topic, part(0, 2)), session_id=session, session_epoch=0)
    fetch(talk, session_id=session, session_epoch=1)
    fetch(talk, session_epoch=0)
    fetch(talk, wanted(topic, part(0, 5)), session_id=session, session_epoch=-1)
    fetch(talk, forgotten=(forgotten,), session_epoch=0)


@conversation(ApiKey.FETCH, since=13, until=13)
def fetch_by_name_and_by_id_in_one_session(talk: Talk) -> None:
    """Fetches by topic name in a session that began with topic ids."""
    topic, _ = shared(talk)
    session = fetch(talk, wanted(topic, part(0, 5)), session_epoch=0).session_id
    for version in (12, 13):
        request = FetchRequest(topics=[wanted(topic, part(0, 2))], session_id=session, session_epoch=1, max_bytes=LARGE)
        talk.ask(request, version)


@conversation(ApiKey.FETCH, since=SESSIONS_SINCE)
def fetch_in_turns_in_a_session(talk: Talk) -> None:
    """Fetches in a session with a small limit; partitions that returned records go to the end of the order."""
    topic = talk.topic("a", 3)
    for index in range(3):
        talk.append(topic, batch(b"a" * 50), batch(b"b" * 50), batch(b"c" * 50), index=index)
    partitions = [part(index) for index in range(3)]
    session = fetch(talk, wanted(topic, *partitions), session_epoch=0, max_bytes=118).session_id
    for epoch in range(1, 6):
        fetch(talk, session_id=session, session_epoch=epoch, max_bytes=118)


@conversation(ApiKey.FETCH, since=SESSIONS_SINCE)
def fetch_a_deleted_topic_in_a_session(talk: Talk) -> None:
    """Deletes a topic while a fetch session contains it."""
    topic, other = talk.topic("a"), talk.topic("b")
    session = fetch(talk, wanted(topic, part()), wanted(other, part()), session_epoch=0).session_id
    talk.delete_topic(topic)
    for epoch in (1, 2):
        fetch(talk, session_id=session, session_epoch=epoch)
    again = talk.topic("a")
    for epoch in (3, 4):
        fetch(talk, session_id=session, session_epoch=epoch)
    fetch(talk, wanted(again, part()), session_id=session, session_epoch=5)
    fetch(talk, session_id=session, session_epoch=6)

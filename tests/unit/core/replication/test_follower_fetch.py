"""Tests the fetch session of a follower: what each request names."""

from __future__ import annotations

from klamm.core.replication.follower_fetch import FetchLimits, FetchPosition, FollowerFetch
from klamm.protocol.schema.fetch_request import FetchRequest
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, TopicId

TOPIC = TopicId(bytes(range(16)))
LIMITS = FetchLimits(500, 1, 1000, 100)
ZERO, ONE = (TOPIC, 0), (TOPIC, 1)
EPOCH = 42
SESSION = 99


def at(offset: int, *, epoch: int = 1, high_watermark: int = 0) -> FetchPosition:
    return FetchPosition(LeaderEpoch(epoch), Offset(offset), LeaderEpoch(0), Offset(0), Offset(high_watermark))


def make(*keys: tuple[TopicId, int]) -> FollowerFetch:
    fetch = FollowerFetch(BrokerId(3), LIMITS)
    for key in keys:
        fetch.put(key, at(0))
    return fetch


def ask(fetch: FollowerFetch, now_ms: float = 0) -> FetchRequest:
    request = fetch.next_request(EPOCH, now_ms)
    assert request is not None
    return request


def named(request: FetchRequest) -> dict[int, int]:
    """Returns the fetch offset of each partition that the request names."""
    return {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}


def forgotten(request: FetchRequest) -> list[int]:
    return [index for topic in request.forgotten_topics_data for index in topic.partitions]


def test_first_request_has_all_and_later_ones_only_changes() -> None:
    """The first request begins a session. Later ones name the partitions whose position has changed."""
    fetch = make(ZERO, ONE)
    first = ask(fetch)
    assert (first.session_id, first.session_epoch, named(first)) == (0, 0, {0: 0, 1: 0})
    assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (3, EPOCH)
    assert fetch.received(SESSION, 0)
    fetch.put(ONE, at(5))
    second = ask(fetch)
    assert (second.session_id, second.session_epoch, named(second)) == (SESSION, 1, {1: 5})
    assert fetch.received(SESSION, 0)
    third = ask(fetch)
    assert (third.session_epoch, named(third), third.max_wait_ms) == (2, {}, 500)


def test_change_of_the_high_watermark_is_told() -> None:
    """The leader answers at once if it knows a higher high watermark (KIP-1166), so it must know the follower's."""
    fetch = make(ZERO)
    ask(fetch)
    fetch.received(SESSION, 0)
    fetch.put(ZERO, at(0, high_watermark=3))
    assert named(ask(fetch)) == {0: 0}


def test_nothing_is_requested_without_partitions() -> None:
    """An idle follower sends nothing, also after its last partition has left the session."""
    assert FollowerFetch(BrokerId(3), LIMITS).next_request(EPOCH, 0) is None
    fetch = make(ZERO)
    ask(fetch)
    fetch.received(SESSION, 0)
    fetch.remove(ZERO)
    assert fetch.next_request(EPOCH, 0) is None


def test_removed_partition_leaves_the_session() -> None:
    """The next request forgets it; a partition that returns before that stays."""
    fetch = make(ZERO, ONE)
    ask(fetch)
    fetch.received(SESSION, 0)
    fetch.remove(ZERO)
    assert forgotten(ask(fetch)) == [0]
    fetch.received(SESSION, 0)
    fetch.remove(ONE)
    fetch.put(ONE, at(7))
    request = ask(fetch)
    assert (named(request), forgotten(request)) == ({1: 7}, [])


def test_error_of_the_session_begins_a_new_one() -> None:
    """After an error, or a lost connection, the next request names everything again."""
    fetch = make(ZERO, ONE)
    ask(fetch)
    fetch.received(SESSION, 0)
    ask(fetch)
    assert not fetch.received(0, 70)
    assert (ask(fetch).session_epoch, len(fetch)) == (0, 2)
    fetch.reset()
    assert named(ask(fetch)) == {0: 0, 1: 0}


def test_leader_without_room_for_a_session_is_asked_for_all_again() -> None:
    """Without a session each request names its partitions."""
    fetch = make(ZERO, ONE)
    for _ in range(3):
        request = ask(fetch)
        assert (request.session_id, request.session_epoch, named(request)) == (0, 0, {0: 0, 1: 0})
        assert request.max_wait_ms == 500
        assert fetch.received(0, 0)


def test_without_a_session_partitions_that_got_records_come_last() -> None:
    """The leader reads in the order of the request. A batch that is larger than `replica.fetch.max.bytes` has room only
    at the beginning of an answer, so a partition that always has records must not always be the first."""
    fetch = make(ZERO, ONE)
    ask(fetch)
    fetch.received(0, 0)
    fetch.put(ZERO, at(5))
    assert list(named(ask(fetch))) == [1, 0]
    fetch.received(0, 0)
    assert list(named(ask(fetch))) == [1, 0]


def test_many_partitions_are_added_in_parts() -> None:
    """A request names at most 500 partitions. Until all are in the session, requests don't wait for records."""
    fetch = make(*((TOPIC, index) for index in range(1200)))
    sizes = []
    waits = []
    for _ in range(3):
        request = ask(fetch)
        sizes.append(len(named(request)))
        waits.append(request.max_wait_ms)
        fetch.received(SESSION, 0)
    assert sizes == [500, 500, 200]
    assert waits == [0, 0, 500]


def test_delayed_partition_leaves_the_session_until_its_time() -> None:
    """A partition that failed is not requested before its time has come."""
    fetch = make(ZERO, ONE)
    ask(fetch)
    fetch.received(SESSION, 0)
    fetch.delay(ZERO, 100)
    request = ask(fetch, 50)
    assert (forgotten(request), fetch.due_in_ms(50)) == ([0], 50)
    fetch.received(SESSION, 0)
    assert named(ask(fetch, 100)) == {0: 0}
    assert fetch.due_in_ms(100) is None


def test_new_position_ends_a_delay() -> None:
    """A new leader epoch is tried at once."""
    fetch = make(ZERO)
    ask(fetch)
    fetch.received(SESSION, 0)
    fetch.delay(ZERO, 1000)
    fetch.put(ZERO, at(0, epoch=2))
    assert named(ask(fetch)) == {0: 0}
    assert fetch.due_in_ms(0) is None


def test_answer_for_an_older_position_is_outdated() -> None:
    """An answer counts only while the partition is where the request said, and is neither delayed nor removed."""
    fetch = make(ZERO, ONE)
    ask(fetch)
    fetch.received(SESSION, 0)
    assert fetch.answered(ZERO) == at(0)
    fetch.put(ZERO, at(0, epoch=2))
    assert fetch.answered(ZERO) is None
    fetch.delay(ONE, 10)
    assert fetch.answered(ONE) is None
    fetch.remove(ONE)
    assert fetch.answered(ONE) is None


def test_held_partition_leaves_the_session_until_its_time() -> None:
    """A throttled partition is taken out of the session, and may be held again when its time has come, before the next
    request names it. A hold does not shorten the delay of a failure."""
    fetch = make(ZERO, ONE)
    ask(fetch)
    fetch.received(SESSION, 0)
    fetch.put(ZERO, at(4))
    fetch.hold(ZERO, 100)
    second = ask(fetch, 50)
    assert (named(second), forgotten(second)) == ({}, [0])
    fetch.received(SESSION, 0)
    fetch.release_due(100)
    fetch.hold(ZERO, 200)
    assert named(ask(fetch, 100)) == {}
    fetch.received(SESSION, 0)
    fetch.hold(ZERO, 110)
    assert fetch.due_in_ms(110) == 90
    assert named(ask(fetch, 200)) == {0: 4}


def test_follower_with_held_partitions_only_requests_nothing() -> None:
    """If all partitions are held, there is nothing to request until the first of them is due."""
    fetch = make(ZERO)
    fetch.hold(ZERO, 100)
    assert fetch.next_request(EPOCH, 0) is None
    assert fetch.due_in_ms(0) == 100
    assert named(ask(fetch, 100)) == {0: 0}

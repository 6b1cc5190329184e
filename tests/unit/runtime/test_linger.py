"""Tests commits that linger: when they are written, how they are merged, and that other decisions wait for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.runtime.coordinator_world import GROUP, P0, TOPIC_ID, CoordinatorWorld
from tests.unit.runtime.fake_ports import MemoryLog

from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.metadata.image import MetadataImage, TopicImage
from klamm.protocol.coordinator_records import decode_group_record
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import PartitionIndex, TopicId
from klamm.runtime.linger import ADAPTIVE


def world(**changes: Any) -> CoordinatorWorld:
    """Returns a coordinator whose commits linger, with an existing group."""
    made = CoordinatorWorld(**{"linger_ms": ADAPTIVE, **changes})
    made.commit(0)
    made.timers.advance(0)
    made.timers.advance(made.coordinator._config.offset_commit_linger_ms)
    return made


def written(world: CoordinatorWorld, since: int = 1) -> list[tuple[str, int]]:
    """Returns topic and offset of the commits in the log, from commit number `since` on."""
    found = []
    for record in world.log.records(P0):
        decoded = decode_group_record(record.key or b"", record.value)
        if decoded is not None and isinstance(decoded[0], OffsetCommitKey):
            value = decoded[1]
            assert isinstance(value, OffsetCommitValue)
            found.append((decoded[0].topic, value.offset))
    return found[since:]


def code(world: CoordinatorWorld, answer: Any) -> ErrorCode:
    return ErrorCode(world.now(answer).topics[0].partitions[0].error_code)


# When commits are written


def test_commit_that_comes_alone_is_written_and_answered_at_once() -> None:
    """A commit that comes alone in a turn of the event loop is written and answered at once."""
    w = world()
    for offset in range(1, 5):
        assert code(w, w.commit(offset)) is ErrorCode.NONE
        w.timers.advance(0)
    assert written(w) == [("events", offset) for offset in range(1, 5)]


def test_commits_of_one_turn_are_written_at_its_end() -> None:
    """All commits of one turn except the first are written as one batch at the end of the turn."""
    w = world()
    first = w.commit(1)
    others = [w.commit(2, topic="audit"), w.commit(3)]
    assert not w.is_waiting(first)
    assert all(w.is_waiting(answer) for answer in others)
    appends = w.log.appends
    w.timers.advance(0)
    assert w.log.appends == appends + 1
    assert [code(w, answer) for answer in others] == [ErrorCode.NONE] * 2
    assert written(w) == [("events", 1), ("audit", 2), ("events", 3)]


def test_turn_after_a_busy_one_waits_from_its_first_commit() -> None:
    """After a turn with several commits even the first commit lingers, until a turn has only one commit."""
    w = world()
    for offset in (1, 2):
        w.commit(offset)
    w.timers.advance(0)
    answer = w.commit(3)
    assert w.is_waiting(answer)
    w.timers.advance(0)
    assert code(w, answer) is ErrorCode.NONE
    assert not w.is_waiting(w.commit(4))


def test_bound_in_milliseconds_is_waited_for() -> None:
    """With a linger in milliseconds, all lingering commits are written when the first one has waited that long."""
    w = world(linger_ms=5)
    first = w.commit(1)
    w.timers.advance(4)
    second = w.commit(2)
    assert w.is_waiting(first)
    w.timers.advance(1)
    assert [code(w, first), code(w, second)] == [ErrorCode.NONE] * 2
    assert written(w) == [("events", 2)]
    third = w.commit(3)
    w.timers.advance(4)
    assert w.is_waiting(third)


def test_bound_begins_anew_after_a_flush() -> None:
    """After a flush, the linger time starts with the next commit."""
    w = world(linger_ms=5)
    w.commit(1)
    w.timers.advance(4)
    assert w.fetched() == 1
    answer = w.commit(2)
    w.timers.advance(4)
    assert w.is_waiting(answer)
    w.timers.advance(1)
    assert not w.is_waiting(answer)


def test_without_linger_every_commit_is_written_at_once() -> None:
    """Without a linger every commit is written at once, as a batch of its own."""
    w = world(linger_ms=0)
    appends = w.log.appends
    assert [code(w, w.commit(offset)) for offset in (1, 2, 3)] == [ErrorCode.NONE] * 3
    assert w.log.appends == appends + 3


# Merging


def test_last_arrival_wins_and_everybody_is_answered() -> None:
    """The last of several merged commits is written, even if it is smaller, and its commit answers all of them."""
    w = world()
    w.log.holds_high_watermark = True
    answers = [w.commit(offset) for offset in (1, 9, 4)]
    w.timers.advance(0)
    assert written(w) == [("events", 1), ("events", 4)]
    assert all(w.is_waiting(answer) for answer in answers)
    w.log.commit(P0, up_to=2)
    assert [w.is_waiting(answer) for answer in answers] == [False, True, True]
    w.log.commit(P0)
    assert [code(w, answer) for answer in answers] == [ErrorCode.NONE] * 3
    assert w.fetched() == 4


def test_commit_is_compared_with_what_lingers() -> None:
    """A commit is compared with the lingering offset, not with the written one: if it repeats the lingering offset, it
    adds no record and waits with it."""
    w = world()
    w.commit(5)
    w.commit(7)
    assert w.is_waiting(w.commit(5))
    w.timers.advance(0)
    assert w.fetched() == 5
    answers = [w.commit(6), w.commit(6)]
    assert all(w.is_waiting(answer) for answer in answers)
    w.timers.advance(0)
    assert [code(w, answer) for answer in answers] == [ErrorCode.NONE] * 2
    assert written(w)[-2:] == [("events", 5), ("events", 6)]


def test_commit_without_news_does_not_wait_for_those_that_linger() -> None:
    """A commit that repeats a committed offset is answered at once, without waiting for lingering commits."""
    w = world()
    assert code(w, w.commit(3, topic="audit")) is ErrorCode.NONE
    assert w.is_waiting(w.commit(1))
    assert not w.is_waiting(w.commit(3, topic="audit"))


def test_commit_that_makes_a_group_does_not_linger() -> None:
    """A commit that creates a group does not linger, so that the next request finds the group."""
    w = world()
    w.commit(1)
    lingering = w.commit(2)
    assert code(w, w.commit(1, group_id="new")) is ErrorCode.NONE
    assert not w.is_waiting(lingering)
    assert written(w) == [("events", 1), ("events", 2), ("events", 1)]


def test_no_more_lingers_than_one_batch_can_hold() -> None:
    """Lingering commits never exceed one batch, which the log would refuse: earlier ones are written first, and a
    commit that is too large fails alone."""
    w = world(log=MemoryLog(max_batch_bytes=600))
    appends = w.log.appends
    answers = [w.commit(offset, topic=f"topic-{offset}") for offset in range(1, 9)]
    assert w.log.appends > appends + 1
    w.timers.advance(0)
    assert [code(w, answer) for answer in answers] == [ErrorCode.NONE] * 8
    assert len(written(w)) == 8
    assert code(w, w.commit(1, topic="x" * 700)) is ErrorCode.UNKNOWN_SERVER_ERROR


def commit_much(w: CoordinatorWorld) -> list[Any]:
    """Sends more than two hundred kilobytes of commits in one turn; returns their answers."""
    return [w.commit(1, topic=f"{number}-{'x' * 200}") for number in range(800)]


@pytest.mark.parametrize("linger_ms", [ADAPTIVE, 1000])
def test_of_very_many_commits_some_are_written_before_their_time(linger_ms: int) -> None:
    """Some of very many commits are written before the linger ends, because one step must not write too much."""
    w = world(linger_ms=linger_ms)
    appends = w.log.appends
    answers = commit_much(w)
    assert w.log.appends >= appends + 3
    w.timers.advance(1000)
    assert [code(w, answer) for answer in answers] == [ErrorCode.NONE] * 800
    assert len(written(w)) == 800


# Other decisions wait for lingering commits


def test_fetch_sees_what_lingers() -> None:
    """I17: a fetch first writes the lingering commits, and therefore sees them."""
    w = world()
    w.commit(1)
    answer = w.commit(2)
    assert w.fetched() == 2
    assert code(w, answer) is ErrorCode.NONE


def test_every_other_request_is_decided_after_what_lingers() -> None:
    """Every other request first writes the lingering commits, even a request that does not concern offsets."""
    requests: tuple[Callable[[CoordinatorWorld], object], ...] = (
        lambda w: w.coordinator.list_groups(ListGroupsRequest(), w.client(5)),
        lambda w: w.coordinator.describe_groups(DescribeGroupsRequest(groups=["ghost"]), w.client(5)),
        lambda w: w.heartbeat("ghost", 1),
        lambda w: w.join(group_id="another"),
        lambda w: w.coordinator.delete_groups(DeleteGroupsRequest(groups_names=[GROUP]), w.client(2)),
    )
    for request in requests:
        w = world()
        w.commit(1)
        answer = w.commit(2)
        request(w)
        assert code(w, answer) is ErrorCode.NONE


def test_group_is_deleted_with_what_lingered() -> None:
    """The deletion of a group first writes its lingering commits, so that the tombstones come last."""
    w = world()
    w.commit(1)
    w.commit(2, topic="audit")
    w.coordinator.delete_groups(DeleteGroupsRequest(groups_names=[GROUP]), w.client(2))
    assert w.fetched() == w.fetched(topic="audit") == -1
    assert w.restart().fetched(topic="audit") == -1


def test_timers_are_decided_after_what_lingers() -> None:
    """A timer first writes the lingering commits, so that a commit that has just arrived does not expire."""
    w = world(linger_ms=50_000, config=GroupCoordinatorConfig(offsets_retention_check_interval_ms=1000))
    answer = w.commit(1)
    w.timers.advance(999)
    assert w.is_waiting(answer)
    w.timers.advance(1)
    assert code(w, answer) is ErrorCode.NONE


def test_changes_of_the_cluster_are_decided_after_what_lingers() -> None:
    """The deletion of a topic also deletes the offsets of commits that still linger."""
    w = world()
    topic = TopicImage("events", TopicId(TOPIC_ID), ())
    w.commit(1)
    w.commit(2)
    w.coordinator.on_metadata_update(MetadataImage(topics_by_id={topic.topic_id: topic}), MetadataImage())
    w.timers.advance(0)
    assert w.fetched() == -1


def test_decision_on_a_commit_is_made_after_what_lingers() -> None:
    """Lingering commits of another group are written before the coordinator acts on a committed assignment."""
    w = world(linger_ms=50_000)
    ids = [w.now(w.join(group_id="members")).member_id for _ in range(2)]
    for member_id in ids:
        w.join(member_id, group_id="members")
    w.timers.advance(1)
    w.log.holds_high_watermark = True
    answers = [w.sync(member_id, 1, ids, group_id="members") for member_id in ids]
    commit = w.commit(1)
    w.log.commit(P0)
    assert written(w) == [("events", 1)]
    w.log.commit(P0)
    assert not any(w.is_waiting(answer) for answer in (*answers, commit))


def test_other_partitions_are_not_flushed() -> None:
    """A fetch writes the lingering commits of its own partition only, because each partition has its own log."""
    w = CoordinatorWorld(partitions=3, linger_ms=50_000)
    groups: dict[PartitionIndex, str] = {}
    for index in range(20):
        groups.setdefault(w.coordinator.partition_for(f"g{index}"), f"g{index}")
    for group_id in groups.values():
        w.commit(0, group_id=group_id)
    answers = {partition: w.commit(1, group_id=group_id) for partition, group_id in groups.items()}
    w.fetched(group_id=groups[PartitionIndex(1)])
    assert [w.is_waiting(answers[partition]) for partition in w.partitions] == [True, False, True]


# Failures


@pytest.mark.parametrize(
    ("log_says", "client_hears"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_failed_append_is_everybodys(log_says: ErrorCode, client_hears: ErrorCode) -> None:
    """A failed append fails all commits of the batch with a coordinator's error code, and none of them takes effect."""
    w = world()
    assert code(w, w.commit(1)) is ErrorCode.NONE
    answers = [w.commit(2), w.commit(3, topic="audit"), w.commit(2)]
    w.log.append_error = log_says
    w.timers.advance(0)
    assert [code(w, answer) for answer in answers] == [client_hears] * 3
    assert w.fetched() == 1
    w.log.append_error = None
    w.commit(4)
    w.timers.advance(0)
    assert w.fetched() == 4


def test_failed_flush_does_not_fail_who_caused_it() -> None:
    """A fetch whose flush fails is answered with the offset that was committed before."""
    w = world()
    assert code(w, w.commit(1)) is ErrorCode.NONE
    answer = w.commit(2)
    w.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert w.fetched() == 1
    assert code(w, answer) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_commit_that_relied_on_what_lingered_fails_with_it() -> None:
    """A commit without room to linger first writes the lingering commits, and fails if that write fails."""
    w = world(log=MemoryLog(max_batch_bytes=600))
    w.commit(1)
    lingering = [w.commit(2), w.commit(3, topic="audit")]
    w.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    big = w.commit(4, topic="y" * 500)
    assert [code(w, answer) for answer in (*lingering, big)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3


def test_log_that_somebody_else_wrote_to_is_read_anew() -> None:
    """If another writer has appended to the log, lingering commits get NOT_COORDINATOR and the log is loaded again.
    Their records may be in it."""
    w = world()
    w.commit(1)
    answer = w.commit(2)
    CoordinatorWorld(log=w.log).commit(7)
    w.timers.advance(0)
    assert code(w, answer) is ErrorCode.NOT_COORDINATOR
    assert w.fetched() in (2, 7)
    assert w.shard().store == CoordinatorWorld(log=w.log).shard().store


def test_topic_that_goes_while_the_log_is_read_anew_takes_its_offsets_with_it() -> None:
    """The deletion of a topic deletes its offsets also if the log is loaded again because of another writer. The
    coordinator notices the other writer when it writes the lingering commits, before it handles the topic."""
    w = world()
    w.commit(1)
    w.commit(2)
    CoordinatorWorld(log=w.log).commit(7)
    topic = TopicImage("events", TopicId(TOPIC_ID), ())
    before = MetadataImage(revision=1, topics={"events": topic}, topics_by_id={topic.topic_id: topic})
    w.coordinator.on_metadata_update(before, MetadataImage(revision=2))
    w.timers.advance(0)
    assert w.fetched() == -1


def test_whoever_lingers_hears_that_leadership_is_lost() -> None:
    """When leadership is lost, lingering commits get NOT_COORDINATOR and are not written."""
    w = world()
    w.commit(1)
    answer = w.commit(2)
    appends = w.log.appends
    w.coordinator.on_resignation(P0)
    assert code(w, answer) is ErrorCode.NOT_COORDINATOR
    w.timers.advance(0)
    assert w.log.appends == appends


def test_replicas_that_do_not_follow_fail_all_who_were_merged() -> None:
    """Merged commits fail if replicas do not follow within `offsets.commit.timeout.ms`; their record may commit
    later."""
    w = world()
    w.log.holds_high_watermark = True
    answers = [w.commit(offset) for offset in (1, 2, 3)]
    w.timers.advance(5000)
    assert [code(w, answer) for answer in answers] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    w.log.commit(P0)
    assert w.fetched() == 3

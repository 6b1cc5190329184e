"""Tests of the time, assignor and tasks of target assignments (KIP-848, KIP-1263)."""

from __future__ import annotations

from typing import cast

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver, slow
from tests.unit.core.group.painted_topics import PaintedTopics, topic_id
from tests.unit.core.group.plain_assignor import PLAIN_ASSIGNORS, PlainAssignor

from klamm.core.group.consumer import target_assignment
from klamm.core.group.consumer.group_state import ConsumerGroupState
from klamm.core.group.events import PartitionMove, Remark, TargetChosen
from klamm.protocol.errors import ErrorCode
from klamm.protocol.records import frame_records
from klamm.runtime.record_serde import GroupRecordSerde

ALL = {EVENTS: [0, 1, 2, 3, 4, 5]}


def spec_of(name: str = "uniform") -> PlainAssignor:
    return cast(PlainAssignor, PLAIN_ASSIGNORS[name])


# The assignment interval


def test_joins_that_come_together_make_two_targets() -> None:
    """Joins within the assignment interval make a target at once, and one at its end without a heartbeat."""
    driver = ConsumerDriver(settings=slow(assignment_interval_ms=1000))
    driver.enter("a")
    for member_id in "bcde":
        driver.advance(100)
        answer = driver.enter(member_id)
        assert (answer.code, answer.epoch, answer.assigned) == (ErrorCode.NONE, 2, {})
    assert (driver.consumer_group().epoch, driver.consumer_group().target_epoch) == (6, 2)
    assert driver.consumer_state() is ConsumerGroupState.ASSIGNING
    driver.advance(600)
    assert driver.consumer_group().target_epoch == 6
    assert len(driver.happened(TargetChosen)) == 2
    driver.settle()
    assert {len(driver.assigned(each)[EVENTS]) for each in "abcde"} == {1, 2}


def test_target_is_made_once_after_the_interval() -> None:
    """After the interval the target is made once, and no later timer appends another one."""
    driver = ConsumerDriver(settings=slow(assignment_interval_ms=1000))
    driver.enter("a")
    driver.go("a")
    driver.enter("b")
    driver.advance(999)
    assert driver.beat("b", 2).assigned is None
    driver.advance(1)
    assert driver.consumer_group().target_epoch == 4
    written = len(driver.log)
    driver.advance(2000)
    assert len(driver.log) == written


def test_wall_clock_that_was_set_back_stops_no_group() -> None:
    """A target with a time in the future does not delay the next target, after the wall clock was set back."""
    driver = ConsumerDriver(settings=slow(assignment_interval_ms=1000))
    driver.enter("a")
    driver.now = type(driver.now)(driver.now - 3_600_000)
    driver.enter("b")
    assert driver.consumer_group().target_epoch == 3


def test_wait_for_the_interval_survives_a_restart() -> None:
    """After a restart, the target is made at the end of the interval without a heartbeat."""
    driver = ConsumerDriver(settings=slow(assignment_interval_ms=1000))
    driver.enter("a")
    driver.enter("b")
    again = driver.reload()
    again.advance(1000)
    assert again.consumer_group().target_epoch == 3


def test_target_that_could_not_be_written_is_made_again() -> None:
    """A target that the log refuses is computed again half a second later."""
    driver = ConsumerDriver(settings=slow(assignment_interval_ms=1000))
    driver.enter("a")
    driver.enter("b")
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.advance(1000)
    assert driver.consumer_group().target_epoch == 2
    driver.append_error = None
    driver.advance(500)
    assert driver.consumer_group().target_epoch == 3


# The assignor


def test_assignor_that_most_members_want_is_asked() -> None:
    """The assignor that most members request is used, or the default assignor if no member requests one."""
    driver = ConsumerDriver()
    driver.enter("a")
    assert driver.happened(TargetChosen)[-1].assignor == "uniform"
    driver.enter("b", assignor="range")
    assert driver.happened(TargetChosen)[-1].assignor == "range"
    driver.enter("c", assignor="uniform")
    driver.enter("d", assignor="uniform")
    assert driver.happened(TargetChosen)[-1].assignor == "uniform"
    assert driver.described().assignor_name == "uniform"


@pytest.mark.parametrize(("first", "second"), [("uniform", "range"), ("range", "uniform")])
def test_assignor_of_the_heartbeat_decides_a_tie(first: str, second: str) -> None:
    """If two assignors have one vote each, the member whose heartbeat makes the target decides, as in Kafka."""
    driver = ConsumerDriver()
    driver.enter("a", assignor=first)
    driver.enter("b", assignor=second)
    assert driver.happened(TargetChosen)[-1].assignor == second
    driver.beat("a", 2, subscribed_topic_names=[EVENTS, "audit"])
    assert driver.happened(TargetChosen)[-1].assignor == first
    driver.go("a")
    driver.enter("c", assignor=first)
    assert driver.happened(TargetChosen)[-1].assignor == first


def test_assignor_that_fails_fails_the_heartbeat() -> None:
    """If the assignor fails, the heartbeat fails without an effect, and the next heartbeat tries again."""
    driver = ConsumerDriver()
    driver.enter("a")
    spec_of().fails = True
    try:
        answer = driver.enter("b")
    finally:
        spec_of().fails = False
    assert answer.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert driver.consumer_group().members.keys() == {"a"}
    assert driver.enter("b").code is ErrorCode.NONE


def test_assignor_that_fails_in_a_timer_leaves_it_to_the_next_heartbeat() -> None:
    """If the assignor fails in a timer, a remark is logged, and the next heartbeat tries again."""
    driver = ConsumerDriver(settings=slow(assignment_interval_ms=1000))
    driver.enter("a")
    driver.enter("b")
    spec_of().fails = True
    try:
        driver.advance(1000)
    finally:
        spec_of().fails = False
    (remark,) = driver.happened(Remark)
    assert remark.text == "Failed to compute a new target assignment for epoch 3: told to"
    assert driver.beat("b", 2).epoch == 3


def test_assignor_is_told_what_there_is_to_know() -> None:
    """The assignor gets members with subscription and target, topics, and whether all subscriptions are equal."""
    driver = ConsumerDriver()
    driver.enter("a", rack_id="r1")
    driver.enter("b", names=[EVENTS, "audit", "nowhere"], instance="pod")
    spec = spec_of().specs[-1]
    assert (spec.members["a"].rack_id, spec.members["b"].instance_id) == ("r1", "pod")
    assert spec.members["a"].topic_ids == {topic_id(EVENTS)}
    assert spec.members["b"].topic_ids == {topic_id(EVENTS), topic_id("audit")}
    assert spec.members["a"].target == {topic_id(EVENTS): frozenset(range(6))}
    assert spec.members["b"].target == {}
    assert {topic.name: topic.partition_count for topic in spec.topics.values()} == {EVENTS: 6, "audit": 2}
    assert not spec.is_homogeneous


def test_newcomer_who_does_not_raise_the_epoch_is_told_of_as_it_is() -> None:
    """The assignor gets the subscription of a new member even if its unresolved expression does not raise the epoch.
    Kafka (`maybeUpdateTargetAssignment`) takes the old members there, as if all had equal subscriptions. The new
    member could then be the target of partitions that it does not read.
    """
    driver = ConsumerDriver()
    driver.enter("a", names=None, regex="ev.*")
    driver.run_tasks()
    driver.enter("b", names=None, regex="nothing")
    spec = spec_of().specs[-1]
    assert (spec.members["a"].topic_ids, spec.members["b"].topic_ids) == ({topic_id(EVENTS)}, frozenset())
    assert not spec.is_homogeneous


def test_former_owner_is_remembered_for_a_while() -> None:
    """A previous owner is remembered for a limited time, by its instance id or else its member id."""
    driver = ConsumerDriver()
    driver.enter("a", instance="pod")
    driver.enter("b")
    driver.settle()
    driver.go("a", instance="pod")
    driver.beat("b", 3)
    left = driver.now
    spec = spec_of().specs[-1]
    assert set(spec.previous_owners.values()) >= {("pod", left, "a")}
    driver.now = type(driver.now)(driver.now + 300_000)
    driver.enter("c")
    assert spec_of().specs[-1].previous_owners == {}


def test_what_moves_is_told_with_the_target() -> None:
    """The event of a target lists the moved partitions with old owner, new owner, and committed offset."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.commit(7, member_id="a", generation=2, partition=3, topic_id=topic_id(EVENTS))
    driver.enter("b")
    chosen = driver.happened(TargetChosen)[-1]
    assert chosen.moved[0] == PartitionMove(EVENTS, 3, "a", "b", 7)  # type: ignore[arg-type]
    assert [move.partition for move in chosen.moved] == [3, 4, 5]
    assert chosen.assignments == {"a": {EVENTS: {0, 1, 2}}, "b": {EVENTS: {3, 4, 5}}}


# Targets that a task computes


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> ConsumerDriver:
    """Returns a driver that treats every group as large."""
    monkeypatch.setattr(target_assignment, "INLINE_LIMIT", 1)
    return ConsumerDriver(settings=slow(assignment_interval_ms=1000))


def test_target_of_a_large_group_is_made_elsewhere(large: ConsumerDriver) -> None:
    """A task computes the target of a large group once, and heartbeats are answered meanwhile."""
    joined = large.enter("a")
    assert (joined.code, joined.epoch, joined.assigned) == (ErrorCode.NONE, 1, {})
    assert large.beat("a", 1).code is ErrorCode.NONE
    assert len(large.tasks) == 1
    large.run_tasks()
    assert large.beat("a", 1).assigned == ALL
    assert large.reload().shard.store == large.shard.store


def test_records_of_a_large_group_are_framed_elsewhere_too(large: ConsumerDriver) -> None:
    """The task frames the records of the target into the same bytes as the direct path."""
    large.enter("a")
    outcome = large.tasks[0].run()
    assert isinstance(outcome, target_assignment.Prepared)
    assert outcome.records
    serde = GroupRecordSerde()
    assert outcome.framed == frame_records(serde.serialize(record) for record in outcome.records)
    assert outcome.framed.records_count == len(outcome.records)


def test_outcome_for_an_epoch_that_has_passed_is_not_believed(large: ConsumerDriver) -> None:
    """The outcome of a task for a past epoch is dropped, and the target of the current epoch is computed."""
    large.enter("a")
    large.enter("b")
    large.run_tasks()
    assert large.consumer_group().target_epoch == 1
    large.advance(0)
    large.run_tasks()
    assert large.consumer_group().target_epoch == 3
    assert large.happened(TargetChosen)[-1].epoch == 3


def test_outcome_for_members_that_are_gone_is_not_believed(large: ConsumerDriver) -> None:
    """The outcome of a task is dropped if a static member returned under another member id, which raises no epoch."""
    large.enter("a", instance="pod")
    large.go("a", instance="pod", for_a_while=True)
    large.enter("b", instance="pod")
    large.run_tasks()
    assert large.consumer_group().target_epoch == 1
    large.advance(0)
    large.run_tasks()
    large.settle()
    assert large.assigned("b") == ALL


def test_target_that_fails_elsewhere_is_tried_again(large: ConsumerDriver) -> None:
    """A task that fails leaves a remark, and a new task runs after the interval."""
    large.enter("a")
    spec_of().fails = True
    try:
        large.run_tasks()
    finally:
        spec_of().fails = False
    assert len(large.happened(Remark)) == 1
    large.advance(1000)
    large.run_tasks()
    assert large.consumer_group().target_epoch == 2


def test_task_that_was_never_started_is_not_waited_for(large: ConsumerDriver) -> None:
    """A task whose append failed is not taken as running, so the next heartbeat starts one."""
    large.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    large.maybe_beat("a", 0, rebalance_timeout_ms=1, subscribed_topic_names=[EVENTS], topic_partitions=[])
    large.append_error = None
    large.enter("a")
    assert len(large.tasks) == 1


def test_task_of_a_group_that_became_empty_ends_quietly(large: ConsumerDriver) -> None:
    """The task and the timer of a group that has become empty start no further task."""
    large.enter("a")
    large.go("a")
    large.run_tasks()
    large.advance(1000)
    assert large.consumer_state() is ConsumerGroupState.EMPTY
    assert GROUP in large.shard.consumer_groups.store.groups
    assert large.tasks == []


def test_topics_of_a_new_cluster_count(large: ConsumerDriver) -> None:
    """A target uses the topics from the start of its task; a later topic change raises the epoch and the target."""
    large.enter("a")
    large.paint(PaintedTopics(2, events=8))
    large.run_tasks()
    assert large.beat("a", 1).epoch == 2
    large.advance(1000)
    large.run_tasks()
    assert large.beat("a", 2).assigned == {EVENTS: list(range(8))}

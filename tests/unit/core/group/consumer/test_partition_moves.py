"""Tests of the partition moves that the event of a new target lists, with old and new owners."""

from __future__ import annotations

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, ConsumerDriver, slow
from tests.unit.core.group.painted_topics import PaintedTopics, topic_id

from klamm.core.group.consumer import partition_moves, target_assignment
from klamm.core.group.events import PartitionMove, TargetChosen


def told(driver: ConsumerDriver) -> list[tuple[int, str | None, str | None]]:
    """Returns the moves of the latest target: partition, old owner and new owner."""
    chosen = driver.happened(TargetChosen)[-1]
    assert all(move.topic == EVENTS for move in chosen.moved)
    return [(move.partition, move.from_member, move.to_member) for move in chosen.moved]


def two_members() -> ConsumerDriver:
    """Creates a group of members a and b with three partitions each, and a commit of b for its second partition."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    driver.settle()
    driver.commit(7, member_id="b", generation=3, partition=4, topic_id=topic_id(EVENTS))
    return driver


@pytest.mark.parametrize("ending", ["it leaves", "its session ends"])
def test_what_a_member_had_that_is_gone_moves(ending: str) -> None:
    """The partitions of a removed member move to the remaining member, with the committed offset of the removed one."""
    driver = two_members()
    if ending == "it leaves":
        driver.go("b")
    else:
        while "b" in driver.consumer_group().members:
            driver.advance(10_000)
            driver.obey("a")
    driver.obey("a")
    chosen = driver.happened(TargetChosen)[-1]
    assert chosen.assignments == {"a": {EVENTS: {0, 1, 2, 3, 4, 5}}}
    assert chosen.moved == (
        PartitionMove(EVENTS, 3, "b", "a", None),  # type: ignore[arg-type]
        PartitionMove(EVENTS, 4, "b", "a", 7),  # type: ignore[arg-type]
        PartitionMove(EVENTS, 5, "b", "a", None),  # type: ignore[arg-type]
    )


def test_what_a_member_had_that_was_thrown_out_moves() -> None:
    """After the removal of a member that did not revoke partitions in time, only its other partitions move."""
    driver = ConsumerDriver()
    driver.enter("a", rebalance_timeout_ms=20_000)
    driver.enter("b")
    assert told(driver) == [(3, "a", "b"), (4, "a", "b"), (5, "a", "b")]
    while "a" in driver.consumer_group().members:
        driver.beat("a", 2)
        driver.obey("b")
        driver.advance(5000)
    driver.obey("b")
    assert told(driver) == [(0, "a", "b"), (1, "a", "b"), (2, "a", "b")]


def test_rolling_restart_of_the_only_member_moves_all() -> None:
    """All partitions are listed as moved when the only member is replaced, although the group was empty in between."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.go("a")
    driver.enter("b")
    assert told(driver) == [(partition, "a", "b") for partition in range(6)]


def test_what_nobody_ever_had_does_not_move() -> None:
    """Partitions that never had an owner do not count as moved: in the first target, a grown topic and a new topic."""
    driver = ConsumerDriver()
    driver.enter("a")
    assert told(driver) == []
    driver.paint(PaintedTopics(2, events=9, audit=2))
    driver.settle()
    assert driver.assigned("a") == {EVENTS: list(range(9))}
    driver.beat("a", driver.member("a").member_epoch, subscribed_topic_names=[EVENTS, "audit"])
    assert driver.consumer_group().target["a"].keys() == {topic_id(EVENTS), topic_id("audit")}
    assert [event.moved for event in driver.happened(TargetChosen)] == [(), (), ()]


def test_what_nobody_has_at_the_moment_moves_from_whom_had_it_last() -> None:
    """A partition without a current owner moves from its last owner, not from the member that was to get it."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    driver.settle("a")
    assert driver.owner(5) is None
    driver.enter("c")
    assert driver.happened(TargetChosen)[-1].assignments["c"] == {EVENTS: {2, 5}}
    assert told(driver) == [(2, "a", "c"), (5, "a", "c")]


def test_who_comes_back_under_the_same_member_id_gets_nothing_from_itself() -> None:
    """A member that leaves and joins again under the same member id has no moves from itself to itself."""
    driver = two_members()
    driver.go("b")
    driver.enter("b")
    assert driver.happened(TargetChosen)[-1].assignments["b"] == {EVENTS: {3, 4, 5}}
    assert told(driver) == []


def test_static_member_that_comes_back_gets_nothing_from_itself() -> None:
    """A static member that returns under another member id has no moves from itself, even with a new target."""
    driver = ConsumerDriver()
    driver.enter("a", instance="pod")
    driver.settle()
    driver.go("a", instance="pod", for_a_while=True)
    driver.enter("heir", instance="pod", names=[EVENTS, "audit"])
    assert driver.happened(TargetChosen)[-1].assignments["heir"] == {EVENTS: set(range(6)), "audit": {0, 1}}
    assert told(driver) == []


def test_static_member_that_went_for_good_is_named_by_its_member_id() -> None:
    """The partitions of a static member that left permanently move from its old member id to its successor."""
    driver = ConsumerDriver()
    driver.enter("a", instance="pod")
    driver.settle()
    driver.go("a", instance="pod")
    driver.enter("heir", instance="pod")
    assert told(driver) == [(partition, "a", "heir") for partition in range(6)]


def test_last_owners_are_known_where_none_is_preferred() -> None:
    """Moves name the last owners even if the preference for previous owners is off."""
    driver = ConsumerDriver(settings=slow(assignment_interval_ms=0, previous_owner_ms=0))
    driver.enter("a")
    driver.enter("b")
    driver.settle()
    driver.go("b")
    driver.obey("a")
    assert told(driver) == [(3, "b", "a"), (4, "b", "a"), (5, "b", "a")]


def test_target_of_a_large_group_names_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target of a large group, which a task computes, lists its moves too."""
    monkeypatch.setattr(target_assignment, "INLINE_LIMIT", 1)
    driver = ConsumerDriver()
    driver.enter("a")
    driver.run_tasks()
    driver.enter("b")
    driver.run_tasks()
    driver.settle()
    driver.go("b")
    driver.obey("a")
    driver.run_tasks()
    assert told(driver) == [(3, "b", "a"), (4, "b", "a"), (5, "b", "a")]


def test_of_very_many_moves_some_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event lists a limited number of moves, and the target itself is complete."""
    monkeypatch.setattr(partition_moves, "MOVES_TOLD", 2)
    driver = two_members()
    driver.go("b")
    driver.obey("a")
    assert told(driver) == [(3, "b", "a"), (4, "b", "a")]
    assert driver.assigned("a") == {EVENTS: [0, 1, 2, 3, 4, 5]}

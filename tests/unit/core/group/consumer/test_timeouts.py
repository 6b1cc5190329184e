"""Tests of session and rebalance timeouts of consumer group members."""

from __future__ import annotations

from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver, owned, slow

from klamm.core.group.consumer.group_state import ConsumerGroupState
from klamm.core.group.consumer.timers import rebalance_timer, session_timer, target_timer
from klamm.core.group.events import Cause, GroupIsStable, MemberRemoved, NewEpoch
from klamm.protocol.errors import ErrorCode

ALL = {EVENTS: [0, 1, 2, 3, 4, 5]}


def test_member_that_is_not_heard_of_is_removed() -> None:
    """A member that misses its session timeout is removed, and the other members get its partitions."""
    driver = ConsumerDriver(settings=slow(session_timeout_ms=50_000, assignment_interval_ms=0))
    driver.enter("a")
    driver.enter("b")
    driver.settle()
    driver.advance(40_000)
    driver.beat("b", 3)
    driver.advance(9_999)
    assert driver.beat("a", 3).code is ErrorCode.NONE
    driver.advance(40_000)
    driver.beat("b", 3)
    driver.advance(10_000)
    assert driver.consumer_group().members.keys() == {"b"}
    (removed,) = driver.happened(MemberRemoved)
    assert (removed.member_id, removed.cause) == ("a", Cause.SESSION_TIMED_OUT)
    assert driver.beat("b", 3).assigned == ALL
    assert driver.beat("a", 3).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_does_not_let_go_is_removed() -> None:
    """A member that does not revoke partitions within its rebalance timeout is removed, even if it sends heartbeats."""
    driver = ConsumerDriver()
    driver.enter("a", rebalance_timeout_ms=20_000)
    driver.enter("b")
    driver.beat("a", 2)
    for _ in range(3):
        driver.advance(5000)
        driver.beat("a", 2)
        driver.beat("b", 3)
    driver.advance(4999)
    assert "a" in driver.consumer_group().members
    driver.advance(1)
    assert "a" not in driver.consumer_group().members
    assert driver.happened(MemberRemoved)[0].cause is Cause.REBALANCE_TIMED_OUT
    assert driver.beat("a", 2).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.beat("b", 3).assigned == ALL


def test_member_that_lets_go_in_time_stays() -> None:
    """A member that revokes partitions in time stays, and each new request to revoke restarts its rebalance timeout."""
    driver = ConsumerDriver()
    driver.enter("a", rebalance_timeout_ms=20_000)
    driver.enter("b")
    driver.beat("a", 2)
    driver.advance(19_999)
    driver.beat("a", 2, topic_partitions=owned(events=[0, 1, 2]))
    driver.advance(10_000)
    assert "a" in driver.consumer_group().members
    driver.enter("c")
    driver.beat("a", 3)
    driver.advance(19_999)
    assert "a" in driver.consumer_group().members
    driver.advance(1)
    assert "a" not in driver.consumer_group().members


def test_member_that_waits_for_others_has_all_the_time() -> None:
    """A member that waits for partitions of other members has no rebalance timeout."""
    driver = ConsumerDriver()
    driver.enter("a", rebalance_timeout_ms=100_000)
    driver.enter("b", rebalance_timeout_ms=1000)
    for _ in range(4):
        driver.advance(5000)
        driver.beat("a", 2)
        assert driver.beat("b", 3).code is ErrorCode.NONE


def test_timers_run_again_after_a_restart() -> None:
    """After a restart, session and rebalance timeouts start again in full length."""
    driver = ConsumerDriver()
    driver.enter("a", rebalance_timeout_ms=20_000)
    driver.enter("b")
    driver.beat("a", 2)
    driver.advance(15_000)
    again = driver.reload()
    again.advance(19_999)
    assert again.consumer_group().members.keys() == {"a", "b"}
    again.advance(1)
    assert again.consumer_group().members.keys() == {"b"}
    again.advance(25_000)
    assert again.consumer_state() is ConsumerGroupState.EMPTY


def test_removal_that_could_not_be_written_is_tried_again() -> None:
    """A removal that the log refuses is tried again half a second later."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.advance(45_000)
    assert driver.consumer_state() is ConsumerGroupState.STABLE
    driver.append_error = None
    driver.advance(499)
    assert driver.consumer_state() is ConsumerGroupState.STABLE
    driver.advance(1)
    assert driver.consumer_state() is ConsumerGroupState.EMPTY


def test_time_goes_on_for_a_member_whose_removal_could_not_be_written() -> None:
    """A leave heartbeat that the log refuses does not extend the session timeout of the member."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.advance(40_000)
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.maybe_beat("a", -1) is ErrorCode.NOT_ENOUGH_REPLICAS
    driver.append_error = None
    driver.advance(4_999)
    assert driver.consumer_group().members.keys() == {"a"}
    driver.advance(1)
    assert driver.consumer_state() is ConsumerGroupState.EMPTY
    assert driver.happened(MemberRemoved)[-1].cause is Cause.SESSION_TIMED_OUT


def test_member_that_comes_back_at_once_is_not_held_to_its_earlier_life() -> None:
    """A member that leaves and joins again under the same id gets new session and rebalance timeouts."""
    driver = ConsumerDriver(settings=slow(assignment_interval_ms=0))
    driver.enter("a", rebalance_timeout_ms=20_000)
    driver.enter("b")
    driver.beat("a", 2)
    driver.advance(19_000)
    driver.go("a")
    driver.enter("a", rebalance_timeout_ms=20_000)
    driver.advance(1_000)
    assert "a" in driver.consumer_group().members
    driver.advance(43_999)
    assert "a" in driver.consumer_group().members
    driver.advance(1)
    assert "a" not in driver.consumer_group().members


def test_timers_of_members_that_are_gone_do_nothing() -> None:
    """Timers of former members and unknown groups append no record, and a static successor has its own timers."""
    driver = ConsumerDriver()
    driver.enter("a", instance="pod")
    driver.advance(40_000)
    driver.go("a", instance="pod", for_a_while=True)
    driver.enter("b", instance="pod")
    driver.advance(40_000)
    assert driver.beat("b", 2, instance_id="pod").code is ErrorCode.NONE
    for key in (session_timer("ghost", "a"), rebalance_timer("ghost", "a"), target_timer("ghost")):
        assert driver.shard.handle_timer(key, driver.now).records == []
    assert driver.shard.handle_timer(rebalance_timer(GROUP, "b"), driver.now).records == []


def test_group_that_was_left_is_at_rest() -> None:
    """The removal of the last member raises an epoch without members, which is stable at once."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.events.clear()
    driver.advance(45_000)
    assert [event.member_ids for event in driver.happened(NewEpoch)] == [()]
    assert [event.epoch for event in driver.happened(GroupIsStable)] == [3]

"""Tests of static members of consumer groups, which keep their assignment over client restarts (KIP-345, KIP-848)."""

from __future__ import annotations

from tests.unit.core.group.consumer.consumer_driver import EVENTS, ConsumerDriver, owned

from klamm.core.group.consumer.group_state import ConsumerGroupState
from klamm.core.group.events import Cause, MemberJoined, MemberRemoved, RebalanceNeeded
from klamm.protocol.errors import ErrorCode


def pair() -> ConsumerDriver:
    """Creates a group with a static and a dynamic member, each with half of the partitions."""
    driver = ConsumerDriver()
    driver.enter("s-1", instance="pod")
    driver.enter("d")
    driver.settle()
    assert driver.assigned("d") == {EVENTS: [0, 1, 2]} or driver.assigned("s-1") == {EVENTS: [0, 1, 2]}
    return driver


def test_static_member_may_leave_for_a_while() -> None:
    """A static member that leaves temporarily keeps its partitions, and no partition of another member moves."""
    driver = pair()
    epoch, had = driver.consumer_group().epoch, driver.assigned("s-1")
    answer = driver.go("s-1", instance="pod", for_a_while=True)
    assert (answer.code, answer.epoch) == (ErrorCode.NONE, -2)
    assert driver.member("s-1").member_epoch == -2
    assert driver.beat("d", 3).assigned is None
    back = driver.enter("s-2", instance="pod")
    assert (back.code, back.epoch, back.assigned) == (ErrorCode.NONE, epoch, had)
    assert driver.consumer_group().epoch == epoch
    assert driver.consumer_group().members.keys() == {"s-2", "d"}
    assert driver.consumer_state() is ConsumerGroupState.STABLE
    assert driver.reload().shard.store == driver.shard.store


def test_return_with_another_subscription_raises_the_epoch() -> None:
    """A static member that returns with another subscription raises the epoch, with its return as the cause."""
    driver = pair()
    driver.go("s-1", instance="pod", for_a_while=True)
    driver.enter("s-2", instance="pod", names=["audit"])
    assert driver.consumer_group().epoch == 4
    assert driver.happened(RebalanceNeeded)[-1].cause is Cause.STATIC_MEMBER_RETURNED
    driver.settle()
    assert driver.assigned("d") == {EVENTS: [0, 1, 2, 3, 4, 5]}
    assert driver.assigned("s-2") == {"audit": [0, 1]}


def test_member_that_does_not_come_back_is_removed() -> None:
    """A static member that left temporarily is removed when its session timeout ends."""
    driver = pair()
    driver.go("s-1", instance="pod", for_a_while=True)
    for _ in range(9):
        driver.advance(5000)
        driver.beat("d", driver.member("d").member_epoch)
    assert driver.consumer_group().members.keys() == {"d"}
    driver.settle()
    assert driver.assigned("d") == {EVENTS: [0, 1, 2, 3, 4, 5]}


def test_instance_id_in_use_is_not_released() -> None:
    """A member cannot join with the instance id of a current member; that member has to leave first."""
    driver = pair()
    answer = driver.enter("s-2", instance="pod")
    assert answer.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert answer.message == (
        "Static member s-2 with instance id pod cannot join the group because the instance id is owned by s-1 member."
    )
    assert driver.beat("s-1", 3, instance_id="pod").code is ErrorCode.NONE


def test_former_member_of_an_instance_id_is_fenced() -> None:
    """The former member of an instance id is fenced when its successor has joined."""
    driver = pair()
    driver.go("s-1", instance="pod", for_a_while=True)
    driver.enter("s-2", instance="pod")
    answer = driver.beat("s-1", 3, instance_id="pod")
    assert answer.code is ErrorCode.FENCED_INSTANCE_ID
    assert answer.message == "Static member s-1 with instance id pod was fenced by member s-2."
    assert driver.go("s-1", instance="pod").code is ErrorCode.FENCED_INSTANCE_ID
    assert driver.go("s-1", instance="pod", for_a_while=True).code is ErrorCode.FENCED_INSTANCE_ID


def test_unknown_instance_id_is_told() -> None:
    """A heartbeat with an unknown instance id fails, also if it is a leave heartbeat."""
    driver = pair()
    for answer in (driver.beat("x", 3, instance_id="ghost"), driver.go("x", instance="ghost")):
        assert (answer.code, answer.message) == (ErrorCode.UNKNOWN_MEMBER_ID, "Instance id ghost is unknown.")


def test_member_may_come_back_under_its_own_member_id() -> None:
    """A static member may return with the same member id."""
    driver = pair()
    had = driver.assigned("s-1")
    driver.go("s-1", instance="pod", for_a_while=True)
    back = driver.enter("s-1", instance="pod")
    assert (back.code, back.assigned) == (ErrorCode.NONE, had)
    assert driver.consumer_group().members.keys() == {"s-1", "d"}
    assert driver.reload().shard.store == driver.shard.store


def test_static_member_may_leave_for_good() -> None:
    """A static member that leaves with epoch -1 is removed at once."""
    driver = pair()
    assert driver.go("s-1", instance="pod").epoch == -1
    assert driver.consumer_group().static_members == {}
    assert driver.consumer_group().members.keys() == {"d"}


def test_who_was_letting_go_and_left_has_let_go() -> None:
    """A static member that leaves temporarily releases the partitions that it has to revoke, and keeps the others."""
    driver = ConsumerDriver()
    driver.enter("a", instance="pod")
    driver.enter("b")
    driver.beat("a", 2, instance_id="pod")
    driver.go("a", instance="pod", for_a_while=True)
    assert driver.beat("b", 3).assigned == {EVENTS: [3, 4, 5]}
    assert driver.enter("c", instance="pod").assigned == {EVENTS: [0, 1, 2]}
    assert driver.beat("c", 3, instance_id="pod", topic_partitions=owned(events=[0, 1, 2])).code is ErrorCode.NONE


def test_return_is_told_as_events() -> None:
    """The return of a static member raises events that remove the old member id and add the new one."""
    driver = pair()
    driver.go("s-1", instance="pod", for_a_while=True)
    driver.events.clear()
    driver.enter("s-2", instance="pod")
    (removed,) = driver.happened(MemberRemoved)
    (joined,) = driver.happened(MemberJoined)
    assert (removed.member_id, removed.cause) == ("s-1", Cause.STATIC_MEMBER_RETURNED)
    assert (joined.member_id, joined.instance_id) == ("s-2", "pod")


def test_member_that_takes_another_instance_id_gives_up_the_first() -> None:
    """A member that joins with another instance id loses the first one, as after a compaction of the log."""
    driver = ConsumerDriver()
    driver.enter("a", instance="one")
    driver.enter("a", instance="other")
    assert driver.consumer_group().static_members == {"other": "a"}
    driver.go("a", instance="other")
    assert driver.consumer_group().static_members == {}

"""Tests of ConsumerGroupHeartbeat: joining, member epochs, refusals, changes of a member, and leaving."""

from __future__ import annotations

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver, owned
from tests.unit.core.group.shard_driver import small_sessions

from klamm.core.group.consumer.group_state import ConsumerGroupState, MemberState
from klamm.protocol.errors import ErrorCode

ALL = {EVENTS: [0, 1, 2, 3, 4, 5]}


def test_first_member_has_everything_at_once() -> None:
    """A group begins at epoch 1; its first member raises the epoch to 2 and gets all partitions at once."""
    driver = ConsumerDriver()
    answer = driver.enter("a")
    assert (answer.code, answer.member_id, answer.epoch, answer.assigned) == (ErrorCode.NONE, "a", 2, ALL)
    assert answer.response.heartbeat_interval_ms == 5000
    assert driver.consumer_state() is ConsumerGroupState.STABLE


def test_steady_heartbeat_changes_nothing() -> None:
    """A heartbeat without changes appends no record, gets no assignment, and restarts the session timeout."""
    driver = ConsumerDriver()
    driver.enter("a")
    written = len(driver.log)
    driver.advance(44_999)
    answer = driver.beat("a", 2)
    assert (answer.code, answer.epoch, answer.assigned) == (ErrorCode.NONE, 2, None)
    driver.advance(44_999)
    assert "a" in driver.consumer_group().members
    assert len(driver.log) == written


def test_full_request_is_answered_in_full() -> None:
    """A heartbeat with all fields gets the full assignment, because the client may have lost an answer."""
    driver = ConsumerDriver()
    driver.enter("a")
    full = driver.beat(
        "a", 2, rebalance_timeout_ms=60_000, subscribed_topic_names=[EVENTS], topic_partitions=owned(events=range(6))
    )
    assert full.assigned == ALL
    assert driver.beat("a", 2, rebalance_timeout_ms=60_000, subscribed_topic_names=[EVENTS]).assigned is None


def test_joining_again_tells_what_the_member_has() -> None:
    """A member that joins again with epoch 0 keeps its partitions and its epoch, and gets its full assignment."""
    driver = ConsumerDriver()
    driver.enter("a")
    again = driver.enter("a")
    assert (again.epoch, again.assigned) == (2, ALL)
    assert driver.consumer_group().epoch == 2


def test_member_without_a_name_gets_one() -> None:
    """In version 0 the broker generates the member id of a new member, which is a bare UUID."""
    driver = ConsumerDriver()
    answer = driver.beat(
        "", 0, version=0, rebalance_timeout_ms=1, subscribed_topic_names=[EVENTS], topic_partitions=[], client_id="app"
    )
    assert answer.member_id == "uuid-1"
    assert driver.beat("uuid-1", 2, version=0, client_id="app").code is ErrorCode.NONE


def test_member_may_join_without_a_topic() -> None:
    """A member without a topic does not change the assignments of the others."""
    driver = ConsumerDriver()
    driver.enter("a")
    idle = driver.enter("b", names=[])
    assert (idle.code, idle.epoch, idle.assigned) == (ErrorCode.NONE, 2, {})
    assert driver.consumer_group().epoch == 2
    assert driver.consumer_state() is ConsumerGroupState.STABLE


def test_topic_that_does_not_exist_assigns_nothing() -> None:
    """A member that subscribes to a topic that does not exist joins, and gets no partitions."""
    driver = ConsumerDriver()
    assert driver.enter("a", names=["nowhere"]).assigned == {}
    assert driver.consumer_state() is ConsumerGroupState.STABLE


# Epochs


def test_greater_epoch_is_fenced() -> None:
    """A member with a higher epoch than the coordinator's is fenced, because its partitions may have another owner."""
    driver = ConsumerDriver()
    driver.enter("a")
    answer = driver.beat("a", 3)
    assert answer.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert answer.message == (
        "The consumer group member has a greater member epoch (3) than the one known by the group coordinator (2). "
        "The member must abandon all its partitions and rejoin."
    )


def test_previous_epoch_will_do_if_nothing_is_owned_beyond_the_assignment() -> None:
    """The previous epoch is accepted if all reported partitions are assigned: the member lost the last answer."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.beat("a", 2, rebalance_timeout_ms=60_000, subscribed_topic_names=[EVENTS, "audit"], topic_partitions=[])
    assert driver.member("a").previous_member_epoch == 2
    assert driver.beat("a", 2, topic_partitions=owned(events=range(6))).code is ErrorCode.NONE
    assert driver.beat("a", 2).code is ErrorCode.FENCED_MEMBER_EPOCH
    answer = driver.beat("a", 2, topic_partitions=owned(events=[7]))
    assert answer.code is ErrorCode.FENCED_MEMBER_EPOCH
    assert answer.message is not None
    assert "has a smaller member epoch (2)" in answer.message


def test_epoch_before_the_previous_is_fenced() -> None:
    """A heartbeat with an epoch before the previous one is fenced, even if it reports no owned partitions."""
    driver = ConsumerDriver()
    driver.enter("a")
    for names in ([EVENTS, "audit"], [EVENTS]):
        driver.beat("a", 0, rebalance_timeout_ms=1, subscribed_topic_names=names, topic_partitions=[])
    assert driver.member("a").member_epoch == 4
    assert driver.beat("a", 2, topic_partitions=[]).code is ErrorCode.FENCED_MEMBER_EPOCH


# Unknown groups and members


def test_unknown_group_is_not_made_by_a_member_that_goes_on() -> None:
    """Only a joining member creates a group; other heartbeats for an unknown group fail."""
    driver = ConsumerDriver()
    answer = driver.beat("a", 1)
    assert (answer.code, answer.message) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {GROUP} not found.")
    answer = driver.go("a")
    assert (answer.code, answer.message) == (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} not found.")


def test_unknown_member_is_told() -> None:
    """An unknown member gets UNKNOWN_MEMBER_ID, and has to join again."""
    driver = ConsumerDriver()
    driver.enter("a")
    for answer in (driver.beat("ghost", 2), driver.go("ghost")):
        assert answer.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert answer.message == f"Member ghost is not a member of group {GROUP}."


def test_full_group_takes_nobody_in() -> None:
    """A full group refuses new members, and its own members may join again."""
    driver = ConsumerDriver(small_sessions(consumer_max_size=1))
    driver.enter("a")
    answer = driver.enter("b")
    assert answer.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert answer.message == "The consumer group has reached its maximum capacity of 1 members."
    assert driver.enter("a").code is ErrorCode.NONE


# Changes of a member


def test_changed_subscription_raises_the_group_epoch() -> None:
    """A member that unsubscribes from a topic revokes its partitions first, and then gets the new epoch."""
    driver = ConsumerDriver()
    driver.enter("a", names=[EVENTS, "audit"])
    answer = driver.beat("a", 2, subscribed_topic_names=["audit"])
    assert (answer.epoch, answer.assigned) == (2, {"audit": [0, 1]})
    assert driver.member("a").state is MemberState.UNREVOKED_PARTITIONS
    answer = driver.beat("a", 2, topic_partitions=owned(audit=[0, 1]))
    assert (answer.epoch, answer.assigned) == (3, None)


@pytest.mark.parametrize(
    "change", [{"rebalance_timeout_ms": 5}, {"rack_id": "r"}, {"server_assignor": "range"}, {"client_id": "other"}]
)
def test_change_that_concerns_nobody_else_is_written_down(change: dict[str, object]) -> None:
    """A change that does not affect other members is written to the log, and does not raise the group epoch."""
    driver = ConsumerDriver()
    driver.enter("a")
    written = len(driver.log)
    assert driver.beat("a", 2, **change).epoch == 2  # type: ignore[arg-type]
    assert len(driver.log) == written + 1
    assert driver.reload().shard.store == driver.shard.store
    assert driver.consumer_group().epoch == 2


# Leaving


def test_member_that_leaves_makes_room() -> None:
    """The other members get the partitions of a member that left with their next heartbeats."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    driver.settle()
    answer = driver.go("a")
    assert (answer.code, answer.member_id, answer.epoch) == (ErrorCode.NONE, "a", -1)
    assert driver.consumer_state() is ConsumerGroupState.ASSIGNING
    assert driver.beat("b", 3).assigned == ALL
    assert driver.consumer_state() is ConsumerGroupState.STABLE


def test_group_is_empty_when_all_have_left() -> None:
    """A group without members stays as an empty group, and keeps its epoch."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.go("a")
    assert driver.consumer_state() is ConsumerGroupState.EMPTY
    assert driver.enter("b").epoch == 4


def test_failed_append_leaves_no_trace() -> None:
    """If the append fails, no group is created, and a member that wanted to leave stays."""
    driver = ConsumerDriver()
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert (
        driver.maybe_beat("a", 0, rebalance_timeout_ms=1, subscribed_topic_names=[EVENTS], topic_partitions=[])
        is ErrorCode.NOT_ENOUGH_REPLICAS
    )
    assert driver.shard.consumer_groups.store.groups == {}
    driver.append_error = None
    driver.enter("a")
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.maybe_beat("a", -1)
    driver.append_error = None
    assert driver.beat("a", 2).code is ErrorCode.NONE
    driver.advance(45_000)
    assert driver.consumer_state() is ConsumerGroupState.EMPTY

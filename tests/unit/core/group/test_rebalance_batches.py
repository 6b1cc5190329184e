"""Tests of `klamm.group.rebalance.batch.ms`: joins and leaves within this time start one rebalance of the group."""

from __future__ import annotations

import pytest
from tests.unit.core.group.shard_driver import DEFAULT_PROTOCOLS, ShardDriver, small_sessions, subscription

from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.events import Cause, RebalanceNeeded
from klamm.core.group.shard import GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse

BATCH_MS = 2000


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver(small_sessions(rebalance_batch_ms=BATCH_MS))


def causes(driver: ShardDriver) -> list[Cause]:
    """Returns the causes of the generations after the first one."""
    return [event.cause for event in driver.events if isinstance(event, RebalanceNeeded) and event.epoch]


def test_joins_and_leaves_that_arrive_together_make_one_rebalance(driver: ShardDriver) -> None:
    """Joins and leaves within the batch time, counted from the first one, start one rebalance with all as causes."""
    ids = driver.stable_group(3)
    first = driver.join(driver.member_id())
    driver.advance(1000)
    assert driver.leave((ids[2], None)) == [ErrorCode.NONE]
    second = driver.join(driver.member_id())
    driver.advance(999)
    assert driver.state() is GroupState.STABLE
    driver.advance(1)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    again = [driver.join(member_id) for member_id in ids[:2]]
    assert {driver.joined(ticket).generation_id for ticket in (first, second, *again)} == {2}
    assert causes(driver) == [Cause.MEMBER_JOINED, Cause.MEMBER_LEFT, Cause.MEMBER_JOINED]


def test_members_go_on_meanwhile(driver: ShardDriver) -> None:
    """During the batch time heartbeats and commits of members succeed, and only then are the members told to rejoin."""
    ids = driver.stable_group()
    newcomer = driver.join(driver.member_id())
    driver.advance(BATCH_MS - 1)
    assert driver.is_parked(newcomer)
    assert driver.heartbeat(ids[0], 1) is ErrorCode.NONE
    assert driver.commit(5, member_id=ids[1], generation=1) is ErrorCode.NONE
    driver.advance(1)
    assert driver.heartbeat(ids[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_has_left_holds_nothing_up(driver: ShardDriver) -> None:
    """A member that left before or during the rebalance does not delay it."""
    ids = driver.stable_group(3)
    driver.leave((ids[0], None))
    driver.advance(BATCH_MS)
    ticket = driver.join(ids[1])
    driver.leave((ids[2], None))
    assert driver.joined(ticket).generation_id == 2
    assert driver.joined(ticket).leader == ids[1]


def test_last_member_leaves_at_once(driver: ShardDriver) -> None:
    """The group becomes empty at once if its only member leaves, because no other member would have to pause."""
    (only,) = driver.stable_group(1)
    driver.leave((only, None))
    assert driver.state() is GroupState.EMPTY


def test_newcomer_that_leaves_again_is_gone(driver: ShardDriver) -> None:
    """A new member that leaves within the batch time gets an error, and the others rebalance only once."""
    ids = driver.stable_group()
    newcomer_id = driver.member_id()
    ticket = driver.join(newcomer_id)
    driver.leave((newcomer_id, None))
    assert driver.join_error(ticket) is ErrorCode.UNKNOWN_MEMBER_ID
    driver.advance(BATCH_MS)
    tickets = [driver.join(member_id) for member_id in ids]
    assert [driver.joined(each).generation_id for each in tickets] == [2, 2]


def test_newcomer_that_asks_again_goes_on_waiting(driver: ShardDriver) -> None:
    """A new member that repeats JoinGroup keeps waiting, because it has no place in the current generation."""
    driver.stable_group()
    newcomer_id = driver.member_id()
    first = driver.join(newcomer_id)
    second = driver.join(newcomer_id)
    assert driver.join_error(first) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.is_parked(second)
    driver.advance(BATCH_MS)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.is_parked(second)


def test_member_that_joins_again_ends_the_wait(driver: ShardDriver) -> None:
    """A member that joins again ends the batch time, because it has stopped already and would only pause longer."""
    ids = driver.stable_group()
    newcomer = driver.join(driver.member_id())
    changed = driver.join(ids[1], protocols=[("range", subscription("events", "audit"))])
    assert driver.state() is GroupState.PREPARING_REBALANCE
    ticket = driver.join(ids[0])
    assert {driver.joined(each).generation_id for each in (ticket, newcomer, changed)} == {2}
    driver.advance(BATCH_MS)
    assert driver.state() is GroupState.COMPLETING_REBALANCE


def test_silent_members_are_part_of_the_batch(driver: ShardDriver) -> None:
    """Members of one host whose sessions end one after the other cause one rebalance."""
    ids = driver.stable_group(3, session_timeout_ms=10_000)
    driver.advance(500)
    driver.heartbeat(ids[1], 1)
    driver.advance(9000)
    driver.heartbeat(ids[0], 1)
    driver.advance(500 + BATCH_MS - 1)
    assert driver.state() is GroupState.STABLE
    assert list(driver.group().members) == [ids[0]]
    driver.advance(1)
    ticket = driver.join(ids[0])
    assert driver.joined(ticket).generation_id == 2
    assert causes(driver) == [Cause.SESSION_TIMED_OUT, Cause.SESSION_TIMED_OUT]


def test_static_member_that_returns_ends_the_wait(driver: ShardDriver) -> None:
    """A static member that returns ends the batch time, because the current generation is about to end."""
    static = driver.join(instance="pod-1")
    driver.advance(driver.config.initial_rebalance_delay_ms * 2)
    static_id = driver.joined(static).member_id
    driver.sync(static_id, 1, {static_id: b""}, instance="pod-1")
    assert driver.state() is GroupState.STABLE
    newcomer = driver.join(driver.member_id())
    back = driver.join(instance="pod-1")
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    assert {driver.joined(each).generation_id for each in (newcomer, back)} == {2}


def test_newcomer_with_other_protocols_can_be_described(driver: ShardDriver) -> None:
    """A new member without the protocol of the current generation is described without metadata."""
    both = [*DEFAULT_PROTOCOLS, ("roundrobin", subscription("events"))]
    driver.stable_group(protocols=both)
    newcomer = driver.join(driver.member_id(), protocols=both[1:])
    assert driver.is_parked(newcomer)
    ticket = driver.ask(GroupShard.handle_describe_groups, DescribeGroupsRequest(groups=["orders"]), 6)
    answer = driver.answers[ticket]
    assert isinstance(answer, DescribeGroupsResponse)
    (described,) = answer.groups
    assert described.group_state == "Stable"
    assert [bool(member.member_metadata) for member in described.members] == [True, True, False]


def test_without_the_setting_every_change_rebalances_at_once() -> None:
    """Without the setting every change starts a rebalance at once, as in Kafka."""
    driver = ShardDriver()
    driver.stable_group()
    driver.join(driver.member_id())
    assert driver.state() is GroupState.PREPARING_REBALANCE

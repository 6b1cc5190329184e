"""Heartbeats and sessions: who is taken to be alive."""

from __future__ import annotations

from tests.unit.core.group.shard_driver import ShardDriver

from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.events import Cause, MemberRemoved
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue


def test_heartbeat_begins_the_session_anew() -> None:
    """A member that is heard of in time stays."""
    driver = ShardDriver()
    ids = driver.stable_group(session_timeout_ms=10_000)
    for _ in range(5):
        driver.advance(9000)
        assert [driver.heartbeat(member_id, 1) for member_id in ids] == [ErrorCode.NONE] * 2


def test_silent_member_is_dropped_after_its_session_timeout() -> None:
    """The others rebalance, and hear of it with their next heartbeat."""
    driver = ShardDriver()
    ids = driver.stable_group(session_timeout_ms=10_000)
    driver.advance(9999)
    driver.heartbeat(ids[0], 1)
    assert driver.state() is GroupState.STABLE
    driver.advance(1)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.heartbeat(ids[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.heartbeat(ids[1], 1) is ErrorCode.UNKNOWN_MEMBER_ID
    (removed,) = (event for event in driver.events if isinstance(event, MemberRemoved))
    assert removed[1:4] == (ids[1], Cause.SESSION_TIMED_OUT, "no heartbeat for 10000 ms")


def test_last_member_that_falls_silent_leaves_the_group_empty() -> None:
    """The generation rises and the log knows; offsets stay."""
    driver = ShardDriver()
    driver.stable_group(size=1)
    driver.advance(10_000)
    assert driver.state() is GroupState.EMPTY
    value = driver.log[-1].record.value
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.members, value.protocol_type, value.protocol) == (2, [], "consumer", None)


def test_silent_member_ends_a_gathering_that_waits_for_it_only() -> None:
    """The others need not wait for the rebalance timeout."""
    driver = ShardDriver()
    ids = driver.stable_group(session_timeout_ms=6000)
    ticket = driver.join(ids[0], session_timeout_ms=6000)
    driver.advance(6000)
    assert driver.joined(ticket).generation_id == 2


def test_refusals() -> None:
    """Unknown group, unknown member, then the generation."""
    driver = ShardDriver()
    assert driver.heartbeat("ghost", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    ids = driver.stable_group()
    assert driver.heartbeat("ghost", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    for generation in (0, 2, -1):
        assert driver.heartbeat(ids[0], generation) is ErrorCode.ILLEGAL_GENERATION


def test_heartbeat_is_welcome_while_assignments_are_awaited() -> None:
    """A member may send some between JoinGroup and SyncGroup."""
    driver = ShardDriver()
    member_id = driver.member_id()
    driver.join(member_id)
    driver.advance(3000)
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    assert driver.heartbeat(member_id, 1) is ErrorCode.NONE


def test_group_comes_back_to_life_after_it_was_empty() -> None:
    """Generations go on from where they were, so that an old member's commits stay refused."""
    driver = ShardDriver()
    driver.stable_group(size=1)
    driver.advance(10_000)
    ticket = driver.join(driver.member_id())
    driver.advance(3000)
    assert driver.joined(ticket).generation_id == 3

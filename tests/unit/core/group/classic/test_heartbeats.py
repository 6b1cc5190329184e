"""Tests of heartbeats and session timeouts of classic members."""

from __future__ import annotations

from tests.unit.core.group.shard_driver import ShardDriver

from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.events import Cause, MemberRemoved
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue


def test_heartbeat_begins_the_session_anew() -> None:
    """A heartbeat restarts the member's session timeout, so a member that sends heartbeats in time stays."""
    driver = ShardDriver()
    ids = driver.stable_group(session_timeout_ms=10_000)
    for _ in range(5):
        driver.advance(9000)
        assert [driver.heartbeat(member_id, 1) for member_id in ids] == [ErrorCode.NONE] * 2


def test_silent_member_is_dropped_after_its_session_timeout() -> None:
    """A member that misses its session timeout is removed, and the others learn of it from their next heartbeat."""
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
    """When the last member's session ends, the generation rises and a record without members is appended."""
    driver = ShardDriver()
    driver.stable_group(size=1)
    driver.advance(10_000)
    assert driver.state() is GroupState.EMPTY
    value = driver.log[-1].record.value
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.members, value.protocol_type, value.protocol) == (2, [], "consumer", None)


def test_silent_member_ends_a_gathering_that_waits_for_it_only() -> None:
    """A rebalance that waits for one member only completes when the session of this member ends."""
    driver = ShardDriver()
    ids = driver.stable_group(session_timeout_ms=6000)
    ticket = driver.join(ids[0], session_timeout_ms=6000)
    driver.advance(6000)
    assert driver.joined(ticket).generation_id == 2


def test_refusals() -> None:
    """The coordinator checks a heartbeat for an unknown group, an unknown member, and then a wrong generation."""
    driver = ShardDriver()
    assert driver.heartbeat("ghost", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    ids = driver.stable_group()
    assert driver.heartbeat("ghost", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    for generation in (0, 2, -1):
        assert driver.heartbeat(ids[0], generation) is ErrorCode.ILLEGAL_GENERATION


def test_heartbeat_is_welcome_while_assignments_are_awaited() -> None:
    """The coordinator accepts heartbeats between JoinGroup and SyncGroup."""
    driver = ShardDriver()
    member_id = driver.member_id()
    driver.join(member_id)
    driver.advance(3000)
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    assert driver.heartbeat(member_id, 1) is ErrorCode.NONE


def test_group_comes_back_to_life_after_it_was_empty() -> None:
    """An empty group that gets a new member continues its generations, so that old members' commits stay refused."""
    driver = ShardDriver()
    driver.stable_group(size=1)
    driver.advance(10_000)
    ticket = driver.join(driver.member_id())
    driver.advance(3000)
    assert driver.joined(ticket).generation_id == 3

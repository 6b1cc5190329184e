"""Tests of LeaveGroup: members that leave, or that an administrator removes."""

from __future__ import annotations

from tests.unit.core.group.shard_driver import ShardDriver

from klamm.core.group.classic.group_state import GroupState
from klamm.protocol.errors import ErrorCode


def test_member_that_leaves_makes_the_others_gather() -> None:
    """A member that leaves starts a rebalance at once, without waiting for its session timeout."""
    driver = ShardDriver()
    ids = driver.stable_group()
    assert driver.leave((ids[1], None)) == [ErrorCode.NONE]
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.joined(driver.join(ids[0])).generation_id == 2


def test_last_member_that_leaves_empties_the_group() -> None:
    """The group becomes empty at once when the last member leaves."""
    driver = ShardDriver()
    ids = driver.stable_group(size=1)
    driver.leave((ids[0], None))
    assert (driver.state(), driver.group().generation) == (GroupState.EMPTY, 2)


def test_leave_ends_a_gathering_that_waits_for_the_one_who_left() -> None:
    """A rebalance completes when the only member that has not joined leaves."""
    driver = ShardDriver()
    ids = driver.stable_group()
    ticket = driver.join(ids[0])
    driver.leave((ids[1], None))
    assert driver.joined(ticket).generation_id == 2


def test_leave_does_not_cut_an_initial_rebalance_short() -> None:
    """An initial rebalance lasts for its full delay even if a member leaves."""
    driver = ShardDriver()
    ids = [driver.member_id(), driver.member_id()]
    staying = driver.join(ids[0])
    going = driver.join(ids[1])
    driver.leave((ids[1], None))
    assert driver.join_error(going) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.is_parked(staying)
    driver.advance(6000)
    assert driver.joined(staying).generation_id == 1


def test_handed_out_id_can_be_given_back() -> None:
    """LeaveGroup removes a pending member id, for a client that closes between its two JoinGroup requests."""
    driver = ShardDriver()
    ids = driver.stable_group()
    pending = driver.member_id()
    tickets = [driver.join(member_id) for member_id in ids]
    assert all(driver.is_parked(ticket) for ticket in tickets)
    assert driver.leave((pending, None)) == [ErrorCode.NONE]
    assert {driver.joined(ticket).generation_id for ticket in tickets} == {2}


def test_several_members_leave_with_an_error_each() -> None:
    """LeaveGroup answers each member with its own error code, and an unknown member id does not affect the others."""
    driver = ShardDriver()
    ids = driver.stable_group(size=3)
    codes = driver.leave((ids[1], None), ("ghost", None), (ids[2], None))
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert list(driver.group().members) == [ids[0]]


def test_unknown_group_is_an_error_of_the_whole() -> None:
    """LeaveGroup for an unknown group fails as a whole; the caller turns the error into one error for each member."""
    assert ShardDriver().leave(("ghost", None)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_member_that_waits_for_its_assignment_is_answered_when_it_is_removed() -> None:
    """A member that is removed while its SyncGroup request waits gets an error answer."""
    driver = ShardDriver()
    joins = [driver.join(instance="a"), driver.join(instance="b")]
    driver.advance(6000)
    follower = driver.joined(joins[1]).member_id
    waiting = driver.sync(follower, 1, instance="b")
    assert driver.leave(("", "b")) == [ErrorCode.NONE]
    assert driver.sync_error(waiting) is ErrorCode.UNKNOWN_MEMBER_ID

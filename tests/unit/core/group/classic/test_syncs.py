"""Tests of SyncGroup: how the leader's assignments reach the members through the log."""

from __future__ import annotations

import pytest
from tests.unit.core.group.shard_driver import ShardDriver, subscription

from klamm.core.coordinator.shard_contract import Ticket
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.timers import sync_timer
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue


def joined_group(driver: ShardDriver, size: int = 2) -> list[str]:
    """Returns the members of a group that know generation 1 and have no assignment yet, the leader first."""
    ids = [driver.member_id() for _ in range(size)]
    for member_id in ids:
        driver.join(member_id)
    driver.advance(6000)
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    return ids


def synced_pair(driver: ShardDriver) -> tuple[list[str], Ticket, Ticket]:
    """Sends SyncGroup of the follower and then of the leader; returns ids, leader's ticket and follower's ticket."""
    ids = joined_group(driver)
    follower = driver.sync(ids[1], 1)
    leader = driver.sync(ids[0], 1, driver.shares(ids))
    return ids, leader, follower


def test_follower_waits_for_the_leader() -> None:
    """The SyncGroup request of a follower is parked until the leader has sent the assignments."""
    driver = ShardDriver()
    ids = joined_group(driver)
    follower = driver.sync(ids[1], 1)
    assert driver.is_parked(follower)
    leader = driver.sync(ids[0], 1, driver.shares(ids))
    assert driver.synced(leader).assignment == ids[0].encode()
    assert driver.synced(follower).assignment == ids[1].encode()
    assert driver.state() is GroupState.STABLE


def test_assignments_are_written_before_anybody_gets_one() -> None:
    """The group becomes Stable, and members get their assignments, when the record with all members is committed."""
    driver = ShardDriver()
    ids = joined_group(driver)
    driver.hold_commits = True
    follower = driver.sync(ids[1], 1)
    leader = driver.sync(ids[0], 1, driver.shares(ids))
    value = driver.log[-1].record.value
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.protocol_type, value.protocol, value.leader) == (1, "consumer", "range", ids[0])
    assert [(m.member_id, m.subscription, m.assignment) for m in value.members] == [
        (member_id, subscription("events"), member_id.encode()) for member_id in ids
    ]
    assert [(m.session_timeout, m.rebalance_timeout, m.client_host) for m in value.members] == [
        (10_000, 60_000, "/10.0.0.1")
    ] * 2
    assert driver.is_parked(leader)
    assert driver.is_parked(follower)
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    driver.commit_held()
    assert driver.sync_error(follower) is ErrorCode.NONE
    assert driver.state() is GroupState.STABLE


def test_late_follower_gets_its_assignment_at_once() -> None:
    """A follower that sends SyncGroup to a stable group gets its assignment at once."""
    driver = ShardDriver()
    ids = joined_group(driver)
    driver.sync(ids[0], 1, driver.shares(ids))
    answer = driver.synced(driver.sync(ids[1], 1))
    assert (answer.assignment, answer.protocol_type, answer.protocol_name) == (ids[1].encode(), "consumer", "range")


def test_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    """A member without an entry in the leader's assignments gets an empty assignment."""
    driver = ShardDriver()
    ids = joined_group(driver)
    driver.sync(ids[0], 1, {ids[0]: b"all", "nobody": b"?"})
    assert driver.synced(driver.sync(ids[1], 1)).assignment == b""


@pytest.mark.parametrize("code", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_assignment_that_cannot_be_written_rebalances(code: ErrorCode) -> None:
    """If the assignments cannot be appended, waiting members get the mapped error and the group rebalances."""
    driver = ShardDriver()
    ids = joined_group(driver)
    follower = driver.sync(ids[1], 1)
    driver.append_error = code
    leader = driver.sync(ids[0], 1, driver.shares(ids))
    expected = (
        ErrorCode.NOT_COORDINATOR if code is ErrorCode.KAFKA_STORAGE_ERROR else ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    assert driver.sync_error(leader) is driver.sync_error(follower) is expected
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_commit_that_comes_after_a_new_rebalance_changes_nothing() -> None:
    """An assignment record that is committed after a new rebalance has started has no effect."""
    driver = ShardDriver()
    ids = joined_group(driver)
    driver.hold_commits = True
    leader = driver.sync(ids[0], 1, driver.shares(ids))
    driver.join(ids[1], protocols=[("range", b"changed")])
    driver.commit_held()
    assert driver.sync_error(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.group().members[ids[0]].assignment == b""


def test_commit_that_comes_in_a_later_generation_changes_nothing() -> None:
    """A commit of an assignment record of generation 1 has no effect in generation 2."""
    driver = ShardDriver()
    ids = joined_group(driver)
    driver.hold_commits = True
    driver.sync(ids[0], 1, driver.shares(ids))
    for member_id in ids:
        driver.join(member_id, protocols=[("range", b"changed")])
    assert (driver.state(), driver.group().generation) == (GroupState.COMPLETING_REBALANCE, 2)
    driver.commit_held()
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    assert driver.group().members[ids[0]].assignment == b""


def test_write_timeout_rebalances_though_the_record_may_commit() -> None:
    """A write timeout starts a rebalance: no member got its assignment, even if the record is committed later."""
    driver = ShardDriver()
    ids = joined_group(driver)
    driver.hold_commits = True
    leader = driver.sync(ids[0], 1, driver.shares(ids))
    driver.fail_held(ErrorCode.REQUEST_TIMED_OUT)
    assert driver.sync_error(leader) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_second_request_of_a_waiting_member_replaces_the_first() -> None:
    """A second SyncGroup request of a waiting member replaces the first, which is answered with an error."""
    driver = ShardDriver()
    ids = joined_group(driver)
    first, second = driver.sync(ids[1], 1), driver.sync(ids[1], 1)
    assert driver.sync_error(first) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.sync(ids[0], 1, driver.shares(ids))
    assert driver.synced(second).assignment == ids[1].encode()


def test_refusals() -> None:
    """SyncGroup is refused in the order of Kafka's checks: group, member, generation, protocol, group state."""
    driver = ShardDriver()
    assert driver.sync_error(driver.sync("ghost", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    ids = driver.stable_group()
    assert driver.sync_error(driver.sync("ghost", 0)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.sync_error(driver.sync(ids[0], 0, protocol_name="sticky")) is ErrorCode.ILLEGAL_GENERATION
    for wrong in ({"protocol_name": "sticky"}, {"protocol_type": "connect"}):
        assert driver.sync_error(driver.sync(ids[0], 1, **wrong)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL  # type: ignore[arg-type]
    right = driver.sync(ids[0], 1, protocol_type="consumer", protocol_name="range")
    assert driver.sync_error(right) is ErrorCode.NONE
    driver.join(ids[0])
    assert driver.sync_error(driver.sync(ids[1], 1)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_member_that_never_syncs_is_dropped() -> None:
    """A member that sends no SyncGroup request within the rebalance timeout is removed, even if it sends heartbeats."""
    driver = ShardDriver()
    ids = [driver.member_id() for _ in range(2)]
    for member_id in ids:
        driver.join(member_id, rebalance_timeout_ms=8000)
    driver.advance(6000)
    leader = driver.sync(ids[0], 1, driver.shares(ids))
    assert driver.sync_error(leader) is ErrorCode.NONE
    for _ in range(2):
        driver.advance(4000)
        driver.heartbeat(ids[0], 1)
        last = driver.heartbeat(ids[1], 1)
    assert last is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert list(driver.group().members) == [ids[0]]


def test_leader_that_never_syncs_is_dropped_and_the_others_are_told() -> None:
    """A leader that sends no SyncGroup is removed, waiting followers have to join again, and a follower leads."""
    driver = ShardDriver()
    ids = [driver.member_id() for _ in range(2)]
    for member_id in ids:
        driver.join(member_id, rebalance_timeout_ms=8000, session_timeout_ms=30_000)
    driver.advance(6000)
    follower = driver.sync(ids[1], 1)
    driver.advance(8000)
    assert driver.sync_error(follower) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.group().leader_id == ids[1]


def test_wait_for_syncs_ends_when_all_have_asked() -> None:
    """The sync timer is cancelled when all members have sent SyncGroup, so no member is removed later."""
    driver = ShardDriver()
    ids, leader, follower = synced_pair(driver)
    assert sync_timer("orders") not in driver.timers
    assert driver.sync_error(leader) is driver.sync_error(follower) is ErrorCode.NONE
    for _ in range(20):
        driver.advance(5000)
        assert {driver.heartbeat(member_id, 1) for member_id in ids} == {ErrorCode.NONE}


def test_session_begins_anew_with_the_assignment() -> None:
    """A member whose session timeout passed while it waited for the leader gets a full session with the answer."""
    driver = ShardDriver()
    ids = [driver.member_id() for _ in range(2)]
    for member_id in ids:
        driver.join(member_id, session_timeout_ms=6000)
    driver.advance(6000)
    driver.sync(ids[1], 1)
    for _ in range(3):
        driver.advance(3000)
        driver.heartbeat(ids[0], 1)
    driver.sync(ids[0], 1, driver.shares(ids))
    driver.advance(5999)
    assert driver.heartbeat(ids[1], 1) is ErrorCode.NONE

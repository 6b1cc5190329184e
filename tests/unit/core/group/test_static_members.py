"""Tests of static members (KIP-345), whose instance id outlives the process."""

from __future__ import annotations

from tests.unit.core.group.shard_driver import ShardDriver, small_sessions, subscription

from klamm.core.group.classic.group_state import GroupState
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue


def static_group(driver: ShardDriver, *instances: str, session_timeout_ms: int = 30_000) -> dict[str, str]:
    """Creates a stable group of static members; returns the member ids by instance id, the leader first."""
    tickets = {
        instance: driver.join(instance=instance, session_timeout_ms=session_timeout_ms) for instance in instances
    }
    driver.advance(6000)
    ids = {instance: driver.joined(ticket).member_id for instance, ticket in tickets.items()}
    for instance, member_id in ids.items():
        is_leader = member_id == driver.group().leader_id
        driver.sync(member_id, 1, driver.shares(list(ids.values())) if is_leader else None, instance=instance)
    assert driver.state() is GroupState.STABLE
    return ids


def test_static_member_joins_in_one_step() -> None:
    """A static member joins with one JoinGroup request, and its member id is made from its instance id."""
    driver = ShardDriver()
    ticket = driver.join(instance="pod-1")
    driver.advance(3000)
    answer = driver.joined(ticket)
    assert (answer.member_id, answer.members[0].group_instance_id) == ("pod-1-1", "pod-1")


def test_restarted_member_takes_its_place_without_a_rebalance() -> None:
    """A restarted static member gets a new member id and its old assignment without a rebalance; the log has the id."""
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    answer = driver.joined(driver.join(instance="b"))
    assert answer.error_code == ErrorCode.NONE
    assert (answer.generation_id, answer.leader, answer.skip_assignment) == (1, ids["a"], False)
    assert answer.member_id != ids["b"]
    assert (driver.state(), driver.group().awaiting_join) == (GroupState.STABLE, 0)
    assert driver.synced(driver.sync(answer.member_id, 1, instance="b")).assignment == ids["b"].encode()
    value = driver.log[-1].record.value
    assert isinstance(value, GroupMetadataValue)
    assert {member.member_id for member in value.members} == {ids["a"], answer.member_id}


def test_restarted_leader_is_told_to_skip_the_assignment() -> None:
    """From version 9 on, a leader that restarts leads again, and is told to skip the assignment (KIP-814)."""
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    answer = driver.joined(driver.join(instance="a", version=9))
    assert answer.skip_assignment
    assert answer.leader == answer.member_id != ids["a"]
    assert len(answer.members) == 2


def test_restarted_leader_of_an_old_version_takes_itself_for_a_follower() -> None:
    """Before version 9, a leader that restarts gets the old leader id, so that it does not assign again."""
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    answer = driver.joined(driver.join(instance="a", version=8))
    assert (answer.leader, answer.members, answer.skip_assignment) == (ids["a"], [], False)
    assert driver.group().leader_id == answer.member_id


def test_old_process_is_fenced() -> None:
    """All requests with the old member id of a restarted static member get FENCED_INSTANCE_ID."""
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    driver.join(instance="b")
    assert driver.heartbeat(ids["b"], 1, instance="b") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.sync_error(driver.sync(ids["b"], 1, instance="b")) is ErrorCode.FENCED_INSTANCE_ID
    assert driver.join_error(driver.join(ids["b"], instance="b")) is ErrorCode.FENCED_INSTANCE_ID
    assert driver.commit(5, member_id=ids["b"], generation=1, instance="b") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.leave((ids["b"], "b")) == [ErrorCode.FENCED_INSTANCE_ID]


def test_unknown_instance_is_an_unknown_member() -> None:
    """An unknown instance id gets UNKNOWN_MEMBER_ID, even with a known member id."""
    driver = ShardDriver()
    ids = static_group(driver, "a")
    assert driver.heartbeat(ids["a"], 1, instance="z") is ErrorCode.UNKNOWN_MEMBER_ID


def test_waiting_requests_of_the_old_process_are_fenced() -> None:
    """If two processes join with one instance id, the earlier request is fenced at once."""
    driver = ShardDriver()
    static_group(driver, "a", "b")
    gathering = driver.join(instance="c")
    again = driver.join(instance="c")
    assert driver.join_error(gathering) is ErrorCode.FENCED_INSTANCE_ID
    assert driver.is_parked(again)


def test_restart_in_an_unfinished_generation_rebalances() -> None:
    """A restart before the assignment starts a rebalance, because the leader may assign to the old member id."""
    driver = ShardDriver()
    tickets = [driver.join(instance="a"), driver.join(instance="b")]
    driver.advance(6000)
    follower = driver.joined(tickets[1]).member_id
    waiting = driver.sync(follower, 1, instance="b")
    driver.join(instance="b")
    assert driver.sync_error(waiting) is ErrorCode.FENCED_INSTANCE_ID
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_restart_with_other_protocols_rebalances_if_the_choice_changes() -> None:
    """A restart with other protocols starts a rebalance if the members would choose another protocol."""
    driver = ShardDriver()
    both = [("range", b""), ("sticky", b"")]
    tickets = [driver.join(instance=name, protocols=both) for name in ("a", "b")]
    driver.advance(6000)
    ids = [driver.joined(ticket).member_id for ticket in tickets]
    driver.sync(ids[0], 1, driver.shares(ids))
    driver.join(instance="b", protocols=[("sticky", b"")])
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_restart_that_cannot_be_written_leaves_the_old_process_its_place() -> None:
    """If the log refuses a restart, the new process gets an error and the old process stays a member."""
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    answer = driver.joined(driver.join(instance="b", protocols=[("range", b"new")], version=9))
    assert (answer.error_code, answer.member_id, answer.leader) == (ErrorCode.NOT_COORDINATOR, "", ids["a"])
    assert driver.heartbeat(ids["b"], 1, instance="b") is ErrorCode.NONE
    restored = driver.group().members[ids["b"]]
    assert (restored.protocols, restored.join_ticket) == ((("range", subscription("events")),), None)


def test_restart_whose_record_is_under_way_joins_a_rebalance_that_begins_meanwhile() -> None:
    """A restart whose record is not committed yet takes part in a rebalance that begins meanwhile."""
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    driver.hold_commits = True
    restarted = driver.join(instance="b")
    leader = driver.join(ids["a"], instance="a")
    driver.commit_held()
    assert driver.joined(restarted).generation_id == driver.joined(leader).generation_id == 2


def test_static_member_that_does_not_join_keeps_its_place() -> None:
    """A static member that does not rejoin stays a member until its session ends, because it may be restarting."""
    driver = ShardDriver()
    ids = static_group(driver, "a", "b", session_timeout_ms=120_000)
    ticket = driver.join(ids["a"], instance="a", rebalance_timeout_ms=60_000, session_timeout_ms=120_000)
    driver.advance(60_000)
    assert driver.joined(ticket).generation_id == 2
    assert set(driver.group().members) == set(ids.values())


def test_rebalance_that_no_static_member_joins_waits_for_their_sessions() -> None:
    """A rebalance that no static member joins starts its timeout again, until the sessions of the members end."""
    driver = ShardDriver()
    ids = static_group(driver, "a", "b", session_timeout_ms=100_000)
    driver.leave(("", "b"))
    driver.advance(60_000)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert list(driver.group().members) == [ids["a"]]
    driver.advance(60_000)
    assert driver.state() is GroupState.EMPTY


def test_administrator_removes_a_static_member_by_its_name() -> None:
    """LeaveGroup removes a static member by its instance id alone, without a member id."""
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    assert driver.leave(("", "b"), ("", "z")) == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(driver.group().members) == [ids["a"]]


def test_old_session_does_not_harm_the_restarted_member() -> None:
    """The session timer of the old member id does not affect the restarted member."""
    driver = ShardDriver(small_sessions())
    static_group(driver, "a", session_timeout_ms=10_000)
    driver.advance(6000)
    restarted = driver.joined(driver.join(instance="a", session_timeout_ms=10_000)).member_id
    driver.advance(6000)
    assert driver.heartbeat(restarted, 1, instance="a") is ErrorCode.NONE


def test_static_members_survive_a_restart_of_the_broker() -> None:
    """Static members keep their instance ids over a restart of the broker, because the log has them."""
    driver = ShardDriver()
    ids = static_group(driver, "a", "b")
    reloaded = driver.reload()
    assert reloaded.group().static_members == ids
    assert reloaded.heartbeat(ids["b"], 1, instance="b") is ErrorCode.NONE

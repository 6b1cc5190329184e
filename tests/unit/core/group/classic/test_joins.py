"""Tests of JoinGroup: how members join, and when the join phase ends."""

from __future__ import annotations

import pytest
from tests.unit.core.group.shard_driver import GROUP, ShardDriver, small_sessions, subscription

from klamm.core.group.classic.classic_shard import ClassicShard
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.group_kind import shard_of
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue

# First JoinGroup request


def test_unknown_group_with_a_member_id_is_refused() -> None:
    """A JoinGroup request with a member id for an unknown group is refused, so that the client starts over."""
    driver = ShardDriver()
    answer = driver.joined(driver.join("ghost"))
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "ghost")
    assert driver.log == []


def test_dynamic_member_gets_its_id_first() -> None:
    """From version 4 on, a client first gets a member id, and its second JoinGroup makes it a member (KIP-394)."""
    driver = ShardDriver()
    answer = driver.joined(driver.join(client_id="app"))
    assert (answer.error_code, answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "app-1")
    assert driver.group().pending_join == {"app-1"}
    assert driver.group().members == {}


def test_new_group_is_written_down_empty() -> None:
    """The first JoinGroup request appends an empty group record with generation 0 and no protocol."""
    driver = ShardDriver()
    driver.join()
    value = driver.log[0].record.value
    assert isinstance(value, GroupMetadataValue)
    assert (value.generation, value.protocol_type, value.protocol, value.leader, value.members) == (
        0,
        "",
        None,
        None,
        [],
    )
    assert value.current_state_timestamp == driver.now


def test_new_group_that_cannot_be_written_does_not_exist() -> None:
    """If the record of a new group cannot be appended, the request fails with the log's error and no group exists."""
    driver = ShardDriver()
    driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    ticket = driver.join()
    assert driver.answers[ticket] is ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.shard.classic_groups.find(GROUP) is None


def test_old_version_joins_without_an_id() -> None:
    """Before version 4 the first JoinGroup request makes a member, and the answer to it has the member id."""
    driver = ShardDriver()
    ticket = driver.join(version=3)
    assert driver.is_parked(ticket)
    driver.advance(3000)
    assert driver.joined(ticket).member_id == "client-1"


def test_handed_out_id_expires_after_the_session_timeout() -> None:
    """A member id without a second JoinGroup request expires after the session timeout."""
    driver = ShardDriver()
    member_id = driver.member_id(session_timeout_ms=10_000)
    driver.advance(10_000)
    assert driver.group().pending_join == set()
    assert driver.join_error(driver.join(member_id)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_handed_out_id_cannot_become_static() -> None:
    """A pending member id with an instance id is refused with UNKNOWN_SERVER_ERROR, as in Kafka."""
    driver = ShardDriver()
    member_id = driver.member_id()
    ticket = driver.join(member_id, instance="pod-1")
    assert driver.answers[ticket] is ErrorCode.UNKNOWN_SERVER_ERROR


# The initial rebalance


def test_initial_rebalance_waits_for_its_delay() -> None:
    """An empty group waits `group.initial.rebalance.delay.ms`, since each new member would cause another rebalance."""
    driver = ShardDriver()
    ticket = driver.join(driver.member_id())
    driver.advance(2999)
    assert driver.is_parked(ticket)
    driver.advance(1)
    answer = driver.joined(ticket)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (ErrorCode.NONE, 1, "range")
    assert driver.state() is GroupState.COMPLETING_REBALANCE


def test_newcomer_extends_the_initial_rebalance() -> None:
    """A new member during the initial delay extends the initial rebalance by another delay."""
    driver = ShardDriver()
    first = driver.join(driver.member_id())
    driver.advance(2000)
    second = driver.join(driver.member_id())
    driver.advance(3999)
    assert driver.is_parked(first)
    driver.advance(1)
    assert driver.joined(first).generation_id == driver.joined(second).generation_id == 1


def test_initial_rebalance_is_bounded_by_the_rebalance_timeout() -> None:
    """The first member waits at most its rebalance timeout, however many members join."""
    driver = ShardDriver()
    first = driver.join(driver.member_id(), rebalance_timeout_ms=7000)
    for _ in range(7):
        driver.advance(999)
        driver.join(driver.member_id(), rebalance_timeout_ms=7000)
    assert driver.is_parked(first)
    driver.advance(7)
    assert driver.joined(first).generation_id == 1


def test_initial_delay_of_zero_completes_at_once() -> None:
    """With an initial delay of 0 the rebalance completes at the next run of the timers."""
    driver = ShardDriver(small_sessions(initial_rebalance_delay_ms=0))
    ticket = driver.join(driver.member_id())
    driver.advance(0)
    assert driver.joined(ticket).generation_id == 1


def test_only_the_leader_learns_of_the_others() -> None:
    """The first member that joins is the leader, and only the leader gets the metadata of all members."""
    driver = ShardDriver()
    ids = [driver.member_id() for _ in range(3)]
    tickets = [driver.join(member_id) for member_id in ids]
    driver.advance(6000)
    answers = [driver.joined(ticket) for ticket in tickets]
    assert {answer.leader for answer in answers} == {ids[0]}
    assert [member.member_id for member in answers[0].members] == ids
    assert all(member.metadata == subscription("events") for member in answers[0].members)
    assert answers[1].members == answers[2].members == []


# Protocols


def test_protocol_with_most_votes_is_chosen() -> None:
    """Each member votes for its most preferred protocol among those that all members support."""
    driver = ShardDriver()
    wishes = [("a", "b", "c"), ("b", "a"), ("c", "b", "a"), ("b", "a", "d")]
    protocols = [[(name, name.encode()) for name in names] for names in wishes]
    tickets = [driver.join(driver.member_id(protocols=each), protocols=each) for each in protocols]
    driver.advance(6000)
    assert {driver.joined(ticket).protocol_name for ticket in tickets} == {"b"}


def test_equal_votes_are_settled_as_in_java() -> None:
    """Equal votes are decided as in Kafka, by the order of a Java HashMap and not by the order of joining."""
    driver = ShardDriver()
    first = driver.join(driver.member_id(), protocols=[("roundrobin", b""), ("range", b"")])
    driver.join(driver.member_id(), protocols=[("range", b""), ("roundrobin", b"")])
    driver.advance(6000)
    assert driver.joined(first).protocol_name == "range"


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", (("range", b""),)), ("consumer", (("sticky", b""),)), ("consumer", ())],
    ids=["other type", "nothing in common", "no protocol"],
)
def test_member_that_does_not_fit_is_refused(protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> None:
    """A new member needs the group's protocol type and at least one protocol that all members support."""
    driver = ShardDriver()
    driver.stable_group()
    ticket = driver.join(protocol_type=protocol_type, protocols=protocols)
    assert driver.join_error(ticket) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_protocols_that_a_member_wants_most_count() -> None:
    """Only the first 1,000 protocols of a member count; the coordinator ignores all later ones."""
    driver = ShardDriver()
    driver.stable_group()
    others = tuple((f"other-{number}", b"") for number in range(1000))
    assert driver.join_error(driver.join(protocols=(*others, ("range", b"")))) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    answer = driver.joined(driver.join(protocols=(*others[:999], ("range", b""))))
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", (("range", b""),)), ("consumer", ())])
def test_first_member_needs_type_and_protocol(protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> None:
    """An empty group accepts any protocol, but refuses a member without a protocol type or without a protocol."""
    driver = ShardDriver()
    ticket = driver.join(protocol_type=protocol_type, protocols=protocols)
    assert driver.join_error(ticket) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# Joining again


def test_newcomer_makes_a_stable_group_gather() -> None:
    """A new member starts a rebalance: heartbeats tell the others, and the generation rises when all have joined."""
    driver = ShardDriver()
    ids = driver.stable_group()
    newcomer = driver.join(driver.member_id())
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.heartbeat(ids[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    tickets = [driver.join(member_id) for member_id in ids]
    assert {driver.joined(ticket).generation_id for ticket in [newcomer, *tickets]} == {2}
    assert driver.joined(newcomer).leader == ids[0]


def test_gathering_waits_for_ids_that_were_handed_out() -> None:
    """A rebalance waits for pending member ids, because a later join would cause another rebalance."""
    driver = ShardDriver()
    ids = driver.stable_group()
    pending = driver.member_id()
    tickets = [driver.join(ids[0]), driver.join(ids[1])]
    assert all(driver.is_parked(ticket) for ticket in tickets)
    tickets.append(driver.join(pending))
    assert {driver.joined(ticket).generation_id for ticket in tickets} == {2}


def test_handed_out_id_that_expires_ends_the_gathering() -> None:
    """A pending member id that expires completes the rebalance before the rebalance timeout of the members."""
    driver = ShardDriver()
    ids = driver.stable_group(size=1, session_timeout_ms=30_000)
    driver.member_id(session_timeout_ms=6000)
    ticket = driver.join(ids[0], session_timeout_ms=30_000)
    driver.advance(6000)
    assert driver.joined(ticket).generation_id == 2


def test_gathering_ends_with_the_rebalance_timeout() -> None:
    """Dynamic members that do not join within the rebalance timeout are removed, even if they send heartbeats."""
    driver = ShardDriver()
    ids = driver.stable_group(rebalance_timeout_ms=30_000, session_timeout_ms=30_000)
    newcomer = driver.join(driver.member_id(), rebalance_timeout_ms=30_000)
    driver.advance(29_999)
    assert driver.heartbeat(ids[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.is_parked(newcomer)
    driver.advance(1)
    assert driver.joined(newcomer).leader == driver.joined(newcomer).member_id
    assert driver.heartbeat(ids[0], 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_leader_that_does_not_join_is_replaced() -> None:
    """If the leader does not join, a member that has joined leads the next generation."""
    driver = ShardDriver()
    ids = driver.stable_group(size=3, rebalance_timeout_ms=20_000, session_timeout_ms=30_000)
    tickets = [driver.join(ids[1], protocols=[("range", b"new")]), driver.join(ids[2])]
    driver.advance(60_000)
    assert {driver.joined(ticket).leader for ticket in tickets} == {ids[1]}


def test_leader_that_joins_again_rebalances() -> None:
    """A leader that joins again starts a rebalance even with unchanged metadata: it may have seen a changed topic."""
    driver = ShardDriver()
    ids = driver.stable_group()
    driver.join(ids[0])
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_unchanged_follower_hears_of_its_generation() -> None:
    """A follower that joins again with unchanged metadata gets the current generation, without a rebalance."""
    driver = ShardDriver()
    ids = driver.stable_group()
    answer = driver.joined(driver.join(ids[1]))
    assert (answer.generation_id, answer.leader, answer.members) == (1, ids[0], [])
    assert driver.state() is GroupState.STABLE


def test_changed_follower_rebalances() -> None:
    """A follower that joins again with a changed subscription starts a rebalance."""
    driver = ShardDriver()
    ids = driver.stable_group()
    driver.join(ids[1], protocols=[("range", subscription("other"))])
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_unchanged_member_of_an_unfinished_generation_hears_of_it_again() -> None:
    """A leader whose first answer was lost joins again and gets the member list again."""
    driver = ShardDriver()
    ids = [driver.member_id() for _ in range(2)]
    for member_id in ids:
        driver.join(member_id)
    driver.advance(6000)
    again = driver.joined(driver.join(ids[0]))
    assert [member.member_id for member in again.members] == ids
    assert driver.state() is GroupState.COMPLETING_REBALANCE


def test_changed_member_of_an_unfinished_generation_starts_over() -> None:
    """A member that joins with changed metadata restarts the rebalance, and waiting SyncGroup requests fail."""
    driver = ShardDriver()
    ids = [driver.member_id() for _ in range(2)]
    for member_id in ids:
        driver.join(member_id)
    driver.advance(6000)
    waiting = driver.sync(ids[1], 1)
    driver.join(ids[0], protocols=[("range", b"changed")])
    assert driver.sync_error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_second_request_of_a_waiting_member_replaces_the_first() -> None:
    """A second JoinGroup request of a waiting member replaces the first, which is answered with an error."""
    driver = ShardDriver()
    member_id = driver.member_id()
    first, second = driver.join(member_id), driver.join(member_id)
    assert driver.join_error(first) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.advance(3000)
    assert driver.joined(second).generation_id == 1


# Timeouts and limits


def test_new_member_that_waits_too_long_is_dropped() -> None:
    """A waiting new member cannot send heartbeats, so its request has a timeout (five minutes by default)."""
    driver = ShardDriver(small_sessions(new_member_join_timeout_ms=8000))
    driver.stable_group(rebalance_timeout_ms=60_000, session_timeout_ms=60_000)
    ticket = driver.join(driver.member_id())
    driver.advance(8000)
    answer = driver.joined(ticket)
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    assert len(driver.group().members) == 2


def test_waiting_member_needs_no_heartbeat() -> None:
    """A member that waits for the answer to JoinGroup is not removed when its session timeout passes."""
    driver = ShardDriver()
    ids = driver.stable_group(session_timeout_ms=6000, rebalance_timeout_ms=60_000)
    waiting = driver.join(ids[0], session_timeout_ms=6000)
    for _ in range(5):
        driver.advance(3000)
        driver.heartbeat(ids[1], 1)
    assert driver.is_parked(waiting)
    driver.join(ids[1], session_timeout_ms=6000)
    assert driver.joined(waiting).generation_id == 2


def test_group_of_maximum_size_takes_nobody_in() -> None:
    """A stable group with `group.max.size` members refuses new members, and still accepts its own members."""
    driver = ShardDriver(small_sessions(max_size=2))
    ids = driver.stable_group()
    answer = driver.joined(driver.join())
    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert driver.join_error(driver.join(ids[1])) is ErrorCode.NONE


def test_gathering_of_maximum_size_counts_who_has_joined() -> None:
    """During a rebalance `group.max.size` counts the members that have joined; the last ones to join are removed."""
    driver = ShardDriver()
    ids = driver.stable_group(size=3)
    shard_of(ClassicShard, driver.shard.groups.shards).config = small_sessions(max_size=2)
    driver.join(ids[0])
    driver.join(ids[1])
    assert driver.join_error(driver.join(ids[2])) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert ids[2] not in driver.group().members


def test_member_that_changed_its_timeouts_is_held_to_the_new_ones() -> None:
    """A member that joins again with other session and rebalance timeouts is subject to the new timeouts."""
    driver = ShardDriver()
    ids = driver.stable_group(size=1, session_timeout_ms=10_000)
    driver.join(ids[0], session_timeout_ms=6000, rebalance_timeout_ms=1234)
    assert driver.group().rebalance_timeout_ms == 1234
    driver.advance(6000)
    assert driver.state() is GroupState.EMPTY

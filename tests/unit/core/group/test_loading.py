"""Tests of loading a shard from its log, and of unloading it."""

from __future__ import annotations

from tests.unit.core.group.shard_driver import GROUP, ShardDriver, Written, small_sessions

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.classic.group_state import GroupState
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue, MemberMetadata
from klamm.protocol.schema.legacy_offset_commit_key import LegacyOffsetCommitKey
from klamm.protocol.schema.legacy_offset_commit_value import LegacyOffsetCommitValue
from klamm.protocol.types import ProducerId

NO_PRODUCER = ProducerId(-1)


def test_group_is_stable_again_after_a_restart() -> None:
    """After a restart the group has the same generation, members, assignments and offsets, and continues (I17)."""
    driver = ShardDriver()
    ids = driver.stable_group()
    driver.commit(5, member_id=ids[0], generation=1)
    again = driver.reload()
    assert again.shard.store == driver.shard.store
    assert again.state() is GroupState.STABLE
    assert [again.heartbeat(member_id, 1) for member_id in ids] == [ErrorCode.NONE] * 2
    assert again.synced(again.sync(ids[1], 1)).assignment == ids[1].encode()
    assert again.fetch(("events", 0)) == {("events", 0): 5}


def test_members_have_a_full_session_after_a_restart() -> None:
    """After a restart each member has a full session timeout, and is removed if it misses it."""
    driver = ShardDriver()
    ids = driver.stable_group(session_timeout_ms=10_000)
    driver.advance(9000)
    again = driver.reload()
    again.advance(9999)
    assert again.heartbeat(ids[0], 1) is ErrorCode.NONE
    again.advance(1)
    assert list(again.group().members) == [ids[0]]


def test_unfinished_rebalance_is_forgotten_by_a_restart() -> None:
    """After a restart the group is at the last generation in the log; a later generation gets ILLEGAL_GENERATION."""
    driver = ShardDriver()
    ids = driver.stable_group()
    for member_id in ids:
        driver.join(member_id)
    assert driver.group().generation == 2
    again = driver.reload()
    assert (again.state(), again.group().generation) == (GroupState.STABLE, 1)
    assert again.heartbeat(ids[0], 2) is ErrorCode.ILLEGAL_GENERATION


def test_pending_ids_are_forgotten_by_a_restart() -> None:
    """A restart forgets pending member ids, so the client has to get another one."""
    driver = ShardDriver()
    member_id = driver.member_id()
    again = driver.reload()
    assert again.state() is GroupState.EMPTY
    assert again.join_error(again.join(member_id)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_group_above_the_maximum_size_rebalances_when_loaded() -> None:
    """A group that exceeds a lowered maximum size rebalances when it is loaded."""
    driver = ShardDriver()
    driver.stable_group(size=3)
    again = ShardDriver(small_sessions(max_size=2), log=driver.log)
    assert again.state() is GroupState.PREPARING_REBALANCE


def test_records_of_old_brokers_are_understood() -> None:
    """A record of version 0 is loaded with the session timeout as rebalance timeout, and without a state timestamp."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m",
        members=[MemberMetadata(member_id="m", client_id="c", client_host="/h", session_timeout=7000)],
    )
    log = [Written(NO_PRODUCER, CoordinatorRecord(GroupMetadataKey(group=GROUP), value, 0))]
    driver = ShardDriver(log=log)
    assert (driver.group().rebalance_timeout_ms, driver.group().state_timestamp_ms) == (7000, None)
    assert driver.heartbeat("m", 3) is ErrorCode.NONE


def test_legacy_offset_records_are_understood() -> None:
    """Offset records of type 0, which old Kafka versions wrote, are loaded."""
    key = LegacyOffsetCommitKey(group=GROUP, topic="events", partition=0)
    value = LegacyOffsetCommitValue(offset=12, metadata="m", commit_timestamp=1)
    driver = ShardDriver(log=[Written(NO_PRODUCER, CoordinatorRecord(key, value, 0))])
    assert driver.fetch(("events", 0)) == {("events", 0): 12}


def test_unloading_answers_everybody_who_waits() -> None:
    """Unloading answers all parked requests with NOT_COORDINATOR, so that clients find the new coordinator."""
    driver = ShardDriver()
    ids = driver.stable_group(size=3)
    joining = driver.join(ids[0])
    pair = ShardDriver()
    other = [pair.member_id(), pair.member_id()]
    for member_id in other:
        pair.join(member_id)
    pair.advance(6000)
    syncing = pair.sync(other[1], 1)
    driver.apply(driver.shard.on_unloaded())
    pair.apply(pair.shard.on_unloaded())
    assert driver.join_error(joining) is ErrorCode.NOT_COORDINATOR
    assert driver.joined(joining).member_id == ids[0]
    assert pair.sync_error(syncing) is ErrorCode.NOT_COORDINATOR
    assert driver.parked == pair.parked == set()

"""Tests of OffsetCommit: the checks of the member, and the record that is written."""

from __future__ import annotations

import pytest
from tests.unit.core.group.shard_driver import GROUP, ShardDriver

from klamm.core.group.classic.group_state import GroupState
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import PartitionIndex

EVENTS_0 = ("events", 0)
TOPIC_ID = bytes(range(16))


def test_commit_of_a_stranger_makes_a_simple_group() -> None:
    """A commit without a generation to an unknown group creates a simple group, which only has offsets."""
    driver = ShardDriver()
    assert driver.commit(42) is ErrorCode.NONE
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 42}
    assert driver.state() is GroupState.EMPTY
    assert driver.group().protocol_type is None


def test_record_is_that_of_kafka() -> None:
    """The record has value version 4 with offset, leader epoch, metadata, commit time and topic id, as in Kafka."""
    driver = ShardDriver()
    driver.commit(42, metadata="note", topic_id=TOPIC_ID)
    record = driver.log[-1].record
    assert record.value_version == 4
    assert record.value == OffsetCommitValue(
        offset=42, leader_epoch=-1, metadata="note", commit_timestamp=driver.now, topic_id=TOPIC_ID
    )


def test_member_of_the_present_generation_may_commit() -> None:
    """A member of the current generation may commit in a stable group and while other members rejoin (I16)."""
    driver = ShardDriver()
    ids = driver.stable_group()
    assert driver.commit(1, member_id=ids[0], generation=1) is ErrorCode.NONE
    driver.join(ids[1], protocols=[("range", b"changed")])
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.commit(2, member_id=ids[0], generation=1) is ErrorCode.NONE
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 2}


def test_stale_generation_is_refused() -> None:
    """A commit with another generation is refused, because other members may own the partitions now (I16)."""
    driver = ShardDriver()
    ids = driver.stable_group()
    for member_id in ids:
        driver.join(member_id)
    driver.sync(ids[0], 2, driver.shares(ids))
    assert driver.commit(1, member_id=ids[1], generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(1, member_id=ids[1], generation=3) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(1, member_id="ghost", generation=2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.fetch(EVENTS_0) == {EVENTS_0: -1}


def test_commit_between_join_and_sync_is_refused() -> None:
    """A commit between JoinGroup and SyncGroup is refused, because the member has no assignment yet."""
    driver = ShardDriver()
    member_id = driver.member_id()
    driver.join(member_id)
    driver.advance(3000)
    assert driver.commit(1, member_id=member_id, generation=1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_stranger_may_not_commit_to_a_group_with_members() -> None:
    """A group with members refuses commits without a member id, or with a member id and no generation."""
    driver = ShardDriver()
    ids = driver.stable_group()
    assert driver.commit(1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.commit(1, member_id=ids[0]) is ErrorCode.ILLEGAL_GENERATION


def test_stranger_may_commit_to_an_empty_group() -> None:
    """An empty group accepts commits without a member id, so that an administrator can reset offsets."""
    driver = ShardDriver()
    ids = driver.stable_group()
    driver.leave((ids[0], None), (ids[1], None))
    assert driver.commit(7) is ErrorCode.NONE
    assert driver.commit(8, member_id=ids[0], generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_member_of_a_group_that_does_not_exist_is_refused(version: int, code: ErrorCode) -> None:
    """A commit of a member to an unknown group is refused; clients before version 9 do not know GROUP_ID_NOT_FOUND."""
    assert ShardDriver().commit(1, member_id="m", generation=4, version=version) is code


def test_commit_is_a_sign_of_life() -> None:
    """A commit restarts the session timeout of the member, like a heartbeat."""
    driver = ShardDriver()
    ids = driver.stable_group(size=1, session_timeout_ms=10_000)
    for _ in range(4):
        driver.advance(9000)
        assert driver.commit(1, member_id=ids[0], generation=1) is ErrorCode.NONE
    assert driver.state() is GroupState.STABLE


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ("x" * 4096, ErrorCode.NONE),
        ("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("\U0001f600" * 2048, ErrorCode.NONE),
        ("\U0001f600" * 2048 + "x", ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (None, ErrorCode.NONE),
    ],
    ids=["limit", "over", "emoji at the limit", "emoji over", "null"],
)
def test_metadata_is_limited(metadata: str | None, code: ErrorCode) -> None:
    """Metadata is limited by `offset.metadata.max.bytes`, which Kafka counts in Java characters."""
    driver = ShardDriver()
    assert driver.commit(1, metadata=metadata) is code
    assert (driver.fetch(EVENTS_0) == {EVENTS_0: 1}) is (code is ErrorCode.NONE)


def test_retention_time_of_old_versions_is_kept() -> None:
    """A retention time (versions 2 to 4) is written as expiry time, in a record of version 1 without a topic id."""
    driver = ShardDriver()
    driver.commit(1, retention_ms=5000, topic_id=TOPIC_ID, version=4)
    record = driver.log[-1].record
    assert isinstance(record.value, OffsetCommitValue)
    assert (record.value_version, record.value.expire_timestamp) == (1, driver.now + 5000)
    offset = driver.shard.store.offset(GROUP, "events", PartitionIndex(0))
    assert offset is not None
    assert (offset.expire_timestamp_ms, offset.topic_id) == (driver.now + 5000, bytes(16))


def test_commit_that_cannot_be_written_is_not_seen() -> None:
    """A commit that the log refuses is not visible (I17)."""
    driver = ShardDriver()
    driver.commit(1)
    driver.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.commit(2) is ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 1}


def test_answer_waits_for_the_commit() -> None:
    """The answer to a commit waits until the high watermark passes the record."""
    driver = ShardDriver()
    driver.hold_commits = True
    assert driver.commit(1) is None
    driver.commit_held()
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 1}

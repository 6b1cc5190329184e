"""Tests of commits that repeat the last offset: they are answered, and append no record."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.group.shard_driver import GROUP, ShardDriver, Written, small_sessions

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.shard import GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import ProducerEpoch, ProducerId

EVENTS_0 = ("events", 0)
TOPIC_ID, OTHER_ID = bytes([1]) * 16, bytes([2]) * 16
DAY = 24 * 60 * 60 * 1000
WEEK = 7 * DAY
BASE: dict[str, Any] = {"offset": 5, "metadata": "note", "topic_id": TOPIC_ID, "leader_epoch": 3}


def commit(driver: ShardDriver, **changes: Any) -> bool:
    """Commits `BASE` with these changes, and returns whether a record was appended."""
    before = len(driver.log)
    assert driver.commit(**{**BASE, **changes}) is ErrorCode.NONE
    assert len(driver.log) - before in (0, 1)
    return len(driver.log) > before


def test_commit_that_repeats_the_last_one_is_not_written() -> None:
    """A commit that repeats the last one appends no record, for idle consumers that commit the same offsets again."""
    driver = ShardDriver()
    assert commit(driver)
    assert not commit(driver)
    assert not commit(driver)
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 5}


@pytest.mark.parametrize(
    "changes",
    [{"offset": 6}, {"offset": 4}, {"metadata": ""}, {"metadata": None}, {"leader_epoch": 4}, {"topic_id": OTHER_ID}],
    ids=str,
)
def test_commit_that_differs_in_anything_is_written(changes: dict[str, Any]) -> None:
    """A commit with another offset, leader epoch, metadata or topic id appends a record."""
    driver = ShardDriver()
    commit(driver)
    assert commit(driver, **changes)
    assert not commit(driver, **changes)
    assert commit(driver)


def test_no_metadata_is_empty_metadata() -> None:
    """Null metadata equals empty metadata, because null exists only in the request."""
    driver = ShardDriver()
    assert commit(driver, metadata=None)
    assert not commit(driver, metadata="")
    assert not commit(driver, metadata=None)


def test_commit_that_names_an_expiry_time_is_written() -> None:
    """A commit with a retention time appends a record; the next commit without one removes the expiry time."""
    driver = ShardDriver()
    commit(driver)
    assert commit(driver, retention_ms=DAY)
    assert commit(driver, retention_ms=DAY)
    assert commit(driver)
    assert not commit(driver)


def test_old_commit_is_written_anew() -> None:
    """A repeated commit is written after a tenth of the retention time, because offsets expire from their commit."""
    driver = ShardDriver()
    commit(driver)
    driver.advance(WEEK // 10)
    assert not commit(driver)
    driver.advance(1)
    assert commit(driver)
    assert not commit(driver)


def test_offset_that_is_committed_again_and_again_does_not_expire() -> None:
    """An offset that is committed repeatedly does not expire, although few commits append a record (I17)."""
    driver = ShardDriver()
    written = 0
    for _ in range(24 * 30):
        written += commit(driver)
        driver.advance(3_600_000)
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 5}
    assert written < 60


def test_ephemeral_groups_are_refreshed_by_their_own_retention() -> None:
    """For an ephemeral group, the time is a tenth of its own retention time."""
    driver = ShardDriver(small_sessions(ephemeral_patterns=("*",), ephemeral_retention_ms=1000))
    commit(driver)
    driver.advance(101)
    assert commit(driver)


def test_commit_while_a_transaction_is_pending_is_written() -> None:
    """A repeated commit is written while a transaction is open, so that it wins over the transaction's offset."""
    driver = ShardDriver()
    commit(driver)
    key = OffsetCommitKey(group=GROUP, topic="events", partition=0)
    value = OffsetCommitValue(offset=9, commit_timestamp=driver.now)
    driver._write(Written(ProducerId(1000), CoordinatorRecord(key, value, 4)))
    assert commit(driver)
    driver.shard.replay_end_transaction_marker(ProducerId(1000), ProducerEpoch(0), committed=True)
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 5}
    assert not commit(driver)


def test_group_that_was_deleted_begins_anew() -> None:
    """The first commit after the deletion of a group appends a record."""
    driver = ShardDriver()
    commit(driver)
    request = DeleteGroupsRequest(groups_names=[GROUP])
    driver.ask(GroupShard.handle_delete_groups, request, 2)
    assert commit(driver)


def test_answer_waits_for_what_it_repeats() -> None:
    """The answer to a repeated commit waits until the record with the same offset is committed."""
    driver = ShardDriver()
    driver.commit(4)
    driver.hold_commits = True
    assert driver.commit(5) is None
    assert driver.commit(5) is None
    assert len(driver.log) == 2


def test_repeated_commit_is_a_sign_of_life() -> None:
    """A repeated commit restarts the session timeout of the member."""
    driver = ShardDriver()
    ids = driver.stable_group(size=1, session_timeout_ms=10_000)
    for _ in range(5):
        driver.advance(9000)
        assert driver.commit(1, member_id=ids[0], generation=1) is ErrorCode.NONE


def test_repeated_commit_is_checked_like_any_other() -> None:
    """A repeated commit with a wrong generation or member id is refused like any other (I16)."""
    driver = ShardDriver()
    ids = driver.stable_group(size=1)
    driver.commit(1, member_id=ids[0], generation=1)
    assert driver.commit(1, member_id=ids[0], generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(1, member_id="ghost", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_state_after_a_restart_is_the_same() -> None:
    """The state after a restart is the same, because the log already has the offsets of omitted records (I17)."""
    driver = ShardDriver()
    for offset in (1, 1, 2, 2, 1, 1):
        commit(driver, offset=offset)
    assert len(driver.log) == 3
    assert driver.reload().shard.store == driver.shard.store


def test_commit_is_written_unless_its_coordinator_has_written_since_it_loaded() -> None:
    """I17: a new coordinator writes also a commit that repeats the last one, until it has written a record.

    An earlier coordinator may have appended another offset that was not committed, and that only another replica has.
    If this replica is elected next, that offset would replace the one whose commit was acknowledged without a record.
    A committed record of the new coordinator rules this out: all replicas that may be elected have it.
    """
    driver = ShardDriver()
    commit(driver)
    assert not commit(driver)
    driver = driver.reload()
    assert commit(driver)
    assert not commit(driver)
    driver = driver.reload()
    driver.commit(7, topic="others")
    assert not commit(driver)


def test_member_that_says_nothing_new_has_committed_all_the_same() -> None:
    """A repeated commit marks the member as having committed, although no record is appended."""
    driver = ShardDriver()
    (member_id,) = driver.stable_group(size=1)
    driver.commit(7, member_id=member_id, generation=1)
    member = driver.group().members[member_id]
    member.has_committed = False
    written = len(driver.log)
    driver.commit(7, member_id=member_id, generation=1, metadata="x" * 5000)
    assert not member.has_committed
    driver.commit(7, member_id=member_id, generation=1)
    assert member.has_committed
    assert len(driver.log) == written


@pytest.mark.parametrize("topics", [["events"], ["events", "events"]], ids=["one entry", "two entries"])
def test_last_offset_counts_if_a_commit_names_a_partition_twice(topics: list[str]) -> None:
    """If a request names a partition twice, the last offset counts, also if it equals the one from before."""
    driver = ShardDriver()
    commit(driver)
    offsets = [
        OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=3, committed_metadata="note"
        )
        for offset in (7, 5)
    ]
    share = len(offsets) // len(topics)
    parts = [offsets[start : start + share] for start in range(0, len(offsets), share)]
    request = OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequestTopic(name=topic, topic_id=TOPIC_ID, partitions=part)
            for topic, part in zip(topics, parts, strict=True)
        ],
    )
    driver.ask(GroupShard.handle_offset_commit, request, 9)
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 5}

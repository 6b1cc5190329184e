"""Commits that say nothing new: they are answered, and leave no record."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.group.shard_driver import GROUP, ShardDriver, Written, small_sessions

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.shard import GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import ProducerEpoch, ProducerId

EVENTS_0 = ("events", 0)
TOPIC_ID, OTHER_ID = bytes([1]) * 16, bytes([2]) * 16
DAY = 24 * 60 * 60 * 1000
WEEK = 7 * DAY
BASE: dict[str, Any] = {"offset": 5, "metadata": "note", "topic_id": TOPIC_ID, "leader_epoch": 3}


def commit(driver: ShardDriver, **changes: Any) -> bool:
    """Commits what `BASE` says but for the changes; whether that left a record."""
    before = len(driver.log)
    assert driver.commit(**{**BASE, **changes}) is ErrorCode.NONE
    assert len(driver.log) - before in (0, 1)
    return len(driver.log) > before


def test_commit_that_repeats_the_last_one_is_not_written() -> None:
    """An idle consumer commits the same offsets again and again."""
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
    """Offset, leader epoch, metadata, or the topic that has the name now."""
    driver = ShardDriver()
    commit(driver)
    assert commit(driver, **changes)
    assert not commit(driver, **changes)
    assert commit(driver)


def test_no_metadata_is_empty_metadata() -> None:
    """Null travels only in the request."""
    driver = ShardDriver()
    assert commit(driver, metadata=None)
    assert not commit(driver, metadata="")
    assert not commit(driver, metadata=None)


def test_commit_that_names_an_expiry_time_is_written() -> None:
    """It moves the expiry time; the next one without such a time takes it away."""
    driver = ShardDriver()
    commit(driver)
    assert commit(driver, retention_ms=DAY)
    assert commit(driver, retention_ms=DAY)
    assert commit(driver)
    assert not commit(driver)


def test_old_commit_is_written_anew() -> None:
    """After a tenth of the retention: offsets expire from their commit on, and these are in use."""
    driver = ShardDriver()
    commit(driver)
    driver.advance(WEEK // 10)
    assert not commit(driver)
    driver.advance(1)
    assert commit(driver)
    assert not commit(driver)


def test_offset_that_is_committed_again_and_again_does_not_expire() -> None:
    """I17, over the expiry: though hardly any commit is written."""
    driver = ShardDriver()
    written = 0
    for _ in range(24 * 30):
        written += commit(driver)
        driver.advance(3_600_000)
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 5}
    assert written < 60


def test_ephemeral_groups_are_refreshed_by_their_own_retention() -> None:
    """A tenth of that."""
    driver = ShardDriver(small_sessions(ephemeral_patterns=("*",), ephemeral_retention_ms=1000))
    commit(driver)
    driver.advance(101)
    assert commit(driver)


def test_commit_while_a_transaction_is_pending_is_written() -> None:
    """What the transaction holds would otherwise be newer, and be what the group goes on from."""
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
    """Nothing of it is known any more."""
    driver = ShardDriver()
    commit(driver)
    request = DeleteGroupsRequest(groups_names=[GROUP])
    driver.ask(GroupShard.handle_delete_groups, request, 2)
    assert commit(driver)


def test_answer_waits_for_what_it_repeats() -> None:
    """The same offset was written, and is not committed yet."""
    driver = ShardDriver()
    driver.commit(4)
    driver.hold_commits = True
    assert driver.commit(5) is None
    assert driver.commit(5) is None
    assert len(driver.log) == 2


def test_repeated_commit_is_a_sign_of_life() -> None:
    """The session goes on, though nothing is written."""
    driver = ShardDriver()
    ids = driver.stable_group(size=1, session_timeout_ms=10_000)
    for _ in range(5):
        driver.advance(9000)
        assert driver.commit(1, member_id=ids[0], generation=1) is ErrorCode.NONE


def test_repeated_commit_is_checked_like_any_other() -> None:
    """I16: whoever may not commit hears so."""
    driver = ShardDriver()
    ids = driver.stable_group(size=1)
    driver.commit(1, member_id=ids[0], generation=1)
    assert driver.commit(1, member_id=ids[0], generation=0) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(1, member_id="ghost", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_state_after_a_restart_is_the_same() -> None:
    """I17: what was left out is what the log says already."""
    driver = ShardDriver()
    for offset in (1, 1, 2, 2, 1, 1):
        commit(driver, offset=offset)
    assert len(driver.log) == 3
    assert driver.reload().shard.store == driver.shard.store


def test_member_that_says_nothing_new_has_committed_all_the_same() -> None:
    """It has got as far as that: it is in no crash loop, though its commit is not written."""
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

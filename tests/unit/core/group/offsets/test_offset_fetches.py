"""Tests of OffsetFetch."""

from __future__ import annotations

from tests.unit.core.group.shard_driver import GROUP, ShardDriver, Written

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import ProducerEpoch, ProducerId

EVENTS_0, EVENTS_1, AUDIT_0 = ("events", 0), ("events", 1), ("audit", 0)
OLD_ID, NEW_ID = bytes([1]) * 16, bytes([2]) * 16


def test_partition_without_an_offset_has_minus_one() -> None:
    """A partition without a committed offset is answered with -1, without an error."""
    driver = ShardDriver()
    driver.commit(5)
    assert driver.fetch(EVENTS_0, EVENTS_1, AUDIT_0) == {EVENTS_0: 5, EVENTS_1: -1, AUDIT_0: -1}


def test_unknown_group_has_committed_nothing() -> None:
    """An unknown group has no offsets, without an error, because a consumer fetches before its first commit."""
    driver = ShardDriver()
    assert driver.fetch(EVENTS_0) == {EVENTS_0: -1}
    assert driver.fetch(all_topics=True) == {}


def test_all_topics() -> None:
    """A request without a topic list returns all offsets of the group."""
    driver = ShardDriver()
    driver.commit(5)
    driver.commit(6, partition=1)
    driver.commit(7, topic="audit")
    assert driver.fetch(all_topics=True) == {EVENTS_0: 5, EVENTS_1: 6, AUDIT_0: 7}


def test_offset_of_a_topic_that_was_created_anew_is_not_given() -> None:
    """An offset of a deleted topic is not returned for a new topic of the same name, if both topic ids are known."""
    driver = ShardDriver()
    driver.commit(5, topic_id=OLD_ID)
    assert driver.fetch(EVENTS_0, topic_id=NEW_ID) == {EVENTS_0: -1}
    assert driver.fetch(EVENTS_0, topic_id=OLD_ID) == {EVENTS_0: 5}
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 5}


def in_transaction(driver: ShardDriver, producer: int, offset: int) -> None:
    """Appends an offset of an open transaction to the log."""
    key = OffsetCommitKey(group=GROUP, topic="events", partition=0)
    value = OffsetCommitValue(offset=offset, commit_timestamp=driver.now)
    driver._write(Written(ProducerId(producer), CoordinatorRecord(key, value, 4)))


def end_transaction(driver: ShardDriver, producer: int, *, committed: bool) -> None:
    """Applies the end marker of a transaction."""
    driver.shard.replay_end_transaction_marker(ProducerId(producer), ProducerEpoch(0), committed)


def test_offset_of_an_open_transaction_is_not_seen() -> None:
    """An offset becomes visible with the transaction's marker; a fetch of stable offsets fails before (I12)."""
    driver = ShardDriver()
    driver.commit(5)
    in_transaction(driver, 1000, 9)
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 5}
    assert driver.fetch(EVENTS_0, require_stable=True) == {EVENTS_0: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    assert driver.fetch(all_topics=True, require_stable=True) == {EVENTS_0: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    end_transaction(driver, 1000, committed=True)
    assert driver.fetch(EVENTS_0, require_stable=True) == {EVENTS_0: 9}


def test_offset_of_an_aborted_transaction_is_never_seen() -> None:
    """An offset in an aborted transaction never becomes visible (I12)."""
    driver = ShardDriver()
    driver.commit(5)
    in_transaction(driver, 1000, 9)
    end_transaction(driver, 1000, committed=False)
    assert driver.fetch(EVENTS_0, require_stable=True) == {EVENTS_0: 5}
    assert driver.shard.store.pending_offsets == {}
    assert driver.shard.store.open_transactions == {}


def test_later_commit_outside_of_the_transaction_stands() -> None:
    """A later commit outside of the transaction wins: offsets are ordered by their records, not by the marker."""
    driver = ShardDriver()
    in_transaction(driver, 1000, 9)
    driver.commit(11)
    end_transaction(driver, 1000, committed=True)
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 11}


def test_partition_is_unstable_until_its_last_transaction_ends() -> None:
    """A partition is unstable until the transactions of all producers have ended."""
    driver = ShardDriver()
    in_transaction(driver, 1000, 9)
    in_transaction(driver, 1001, 10)
    end_transaction(driver, 1001, committed=True)
    assert driver.fetch(EVENTS_0, require_stable=True) == {EVENTS_0: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    end_transaction(driver, 1000, committed=True)
    assert driver.fetch(EVENTS_0, require_stable=True) == {EVENTS_0: 10}

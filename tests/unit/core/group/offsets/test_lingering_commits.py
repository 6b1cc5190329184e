"""Tests of lingering commits: a later commit of a partition replaces an earlier one with the same epoch."""

from __future__ import annotations

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.offsets.lingering_commits import LingeringCommits
from klamm.core.group.offsets.offset_records import offset_commit_record
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId

NO_LIMIT = 1_000_000


def record(offset: int, partition: int = 0, *, group_id: str = "orders", metadata: str = "") -> CoordinatorRecord:
    return offset_commit_record(
        group_id,
        "events",
        PartitionIndex(partition),
        offset=Offset(offset),
        leader_epoch=LeaderEpoch(-1),
        metadata=metadata,
        commit_timestamp_ms=Millis(1),
        expire_timestamp_ms=None,
        topic_id=TopicId(ZERO_UUID),
    )


def taken(commits: LingeringCommits) -> list[tuple[str, int, int]]:
    """Returns group, partition and offset of each record that `take` returns, in order."""
    found = []
    for each in commits.take():
        assert isinstance(each.key, OffsetCommitKey)
        assert isinstance(each.value, OffsetCommitValue)
        found.append((each.key.group, each.key.partition, each.value.offset))
    return found


def test_last_arrival_wins_not_the_largest_offset() -> None:
    """The last commit of a partition wins, not the largest offset, so that a reset of offsets stays."""
    commits = LingeringCommits()
    for offset in (5, 9, 3):
        assert commits.put([record(offset)], 1, NO_LIMIT)
    assert taken(commits) == [("orders", 0, 3)]


def test_merging_is_by_group_and_partition() -> None:
    """Commits of different groups or partitions are not merged."""
    commits = LingeringCommits()
    commits.put([record(1, 0), record(2, 1)], 1, NO_LIMIT)
    commits.put([record(3, 1), record(4, 1, group_id="audit")], 1, NO_LIMIT)
    assert sorted(taken(commits)) == [("audit", 1, 4), ("orders", 0, 1), ("orders", 1, 3)]


def test_commits_of_different_epochs_are_all_written_in_order() -> None:
    """Only consecutive commits of the same epoch are merged, so that a replay of the log ends with the last commit."""
    commits = LingeringCommits()
    for offset, epoch in ((1, 5), (2, 5), (3, 6), (4, 5), (5, 5)):
        commits.put([record(offset)], epoch, NO_LIMIT)
    assert taken(commits) == [("orders", 0, 2), ("orders", 0, 3), ("orders", 0, 5)]


def test_latest_commit_can_be_looked_up() -> None:
    """The latest lingering commit of a partition can be looked up, for the comparison with the next commit."""
    commits = LingeringCommits()
    assert not commits
    commits.put([record(1), record(2)], 5, NO_LIMIT)
    epoch, latest = commits.of_topic("orders", "events")[PartitionIndex(0)]
    assert isinstance(latest.value, OffsetCommitValue)
    assert (epoch, latest.value.offset) == (5, 2)
    assert commits.of_topic("orders", "audit") == {}
    assert commits


def test_taking_leaves_nothing() -> None:
    """No commit lingers after `take`."""
    commits = LingeringCommits()
    commits.put([record(1)], 1, NO_LIMIT)
    commits.take()
    assert not commits
    assert commits.take() == []


def test_no_more_lingers_than_fits_a_batch() -> None:
    """A commit above the size limit is refused as a whole; a commit that replaces another needs no more space."""
    commits = LingeringCommits()
    small, large = [record(1)], [record(1, partition) for partition in range(1, 4)]
    for _ in range(10):
        assert commits.put(small, 1, 200)
    assert not commits.put(large, 1, 400)
    assert commits.put([record(2, 1)], 1, 400)
    assert taken(commits) == [("orders", 0, 1), ("orders", 1, 2)]
    assert not commits.put([record(1, metadata="\U0001f600" * 100)], 1, 400)

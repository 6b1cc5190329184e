"""Tests how a query advances through its micro-batches, and which offsets the group gets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import pytest

from klamm.client.committed_offsets import Commit
from klamm.client.errors import GaveUp
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId, TopicPartition
from klamm.spark.source.checkpoint.followed_checkpoint import FollowedCheckpoint
from klamm.spark.source.errors import DataLoss, LossPolicy, MissingTopic
from klamm.spark.source.group.group_commits import GroupCommits
from klamm.spark.source.offsets import PartitionOffsets
from klamm.spark.source.options.positions import AtTimestamp, OffsetLimit
from klamm.spark.source.options.read_limits import TriggerLimits
from klamm.spark.source.planning.planner import OffsetRange, Planner
from klamm.spark.source.planning.progress import StreamProgress
from klamm.spark.source.planning.stop_file import StopFile


def tp(partition: int) -> TopicPartition:
    return TopicPartition("t", PartitionIndex(partition))


def offsets(*ends: int) -> PartitionOffsets:
    return {tp(index): Offset(end) for index, end in enumerate(ends)}


NO_LIMITS = TriggerLimits()


class World:
    """A topic that grows, and a group that records its commits."""

    def __init__(self, *ends: int) -> None:
        self.ends = offsets(*ends)
        self.beginnings: PartitionOffsets = {}
        """The log start offsets above 0."""
        self.told: list[Mapping[TopicPartition, Offset]] = []
        self.coordinator_is_away = False
        self.stands: PartitionOffsets = {}
        """The offsets that were committed before the query started."""
        self.first_of_time: PartitionOffsets = {}
        """The first offsets of the timestamp that the query starts at."""
        self.now = 1000.0
        self.is_missing: tuple[str, ...] = ()
        self.anew: list[str] = []
        """The topics that were recreated and not reported yet."""

    def latest(self) -> PartitionOffsets:
        return dict(self.ends)

    def doubt(self) -> None: ...

    def earliest(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        return {key: self.beginnings.get(key, Offset(0)) for key in topic_partitions if key in self.ends}

    def last(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        return self.latest()

    def missing(self) -> Collection[str | TopicPartition]:
        return self.is_missing

    def at(self, timestamps_ms: Mapping[TopicPartition, Millis]) -> PartitionOffsets:
        return {key: self.first_of_time.get(key, Offset(-1)) for key in timestamps_ms}

    def know(self, topics: Collection[str]) -> None: ...

    def topic_id(self, topic: str) -> TopicId | None:
        return None

    def leader_epoch(self, topic_partition: TopicPartition) -> LeaderEpoch:
        return LeaderEpoch(-1)

    def made_anew(self) -> Collection[str]:
        anew, self.anew = self.anew, []
        return anew

    def commit(self, offsets: Mapping[TopicPartition, Offset], metadata: str = "") -> None:
        if self.coordinator_is_away:
            raise GaveUp("no coordinator")
        if not offsets.keys() <= self.ends.keys():
            raise GaveUp("UNKNOWN_TOPIC_OR_PARTITION")
        self.told.append(offsets)

    def commits(self, topic_partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Commit]:
        return {key: Commit(offset, "") for key, offset in self.stands.items()}

    def run(
        self,
        starting: OffsetLimit,
        limits: TriggerLimits = NO_LIMITS,
        stop_file: StopFile | None = None,
        followed: FollowedCheckpoint | None = None,
        *,
        fails: bool = True,
    ) -> StreamProgress:
        planner = Planner(self, LossPolicy(fail=fails), lambda seconds: None)
        commits = GroupCommits(self, clock=lambda: self.now)
        return StreamProgress(
            starting, planner, commits, limits, clock=lambda: self.now, stop_file=stop_file, followed=followed
        )


def test_each_finished_batch_is_committed_before_the_next_is_planned() -> None:
    """Each finished micro-batch is committed before the next one is planned; the start of a new query is not
    committed."""
    world = World(10)
    progress = world.run("earliest")
    start = progress.start_fresh()

    first = progress.next_end(start, None)
    assert world.told == []
    progress.ranges(start, first)
    world.ends = offsets(20)
    assert progress.next_end(first, None) == offsets(20)

    assert world.told == [offsets(10)]


def test_an_idle_query_does_not_commit_again() -> None:
    """An idle query commits once, although Spark calls `latestOffset` many times a second."""
    world = World(10)
    progress = world.run("earliest")

    for _ in range(5):
        progress.next_end(offsets(10), None)

    assert world.told == [offsets(10)]


def test_a_query_that_goes_on_commits_where_it_stands() -> None:
    """A restarted query commits its first start, because the last commit of the previous run may not have reached the
    group."""
    world = World(10)

    world.run("latest").next_end(offsets(4), None)

    assert world.told == [offsets(4)]


def test_a_coordinator_that_is_away_does_not_stop_the_query() -> None:
    """An unavailable coordinator does not stop the query; the group gets the offsets later, and the checkpoint stays
    valid."""
    world = World(10)
    progress = world.run("earliest")
    world.coordinator_is_away = True
    progress.next_end(offsets(4), None)
    world.coordinator_is_away = False

    progress.next_end(offsets(4), None)
    assert world.told == []
    world.now += 1
    progress.next_end(offsets(4), None)

    assert world.told == [offsets(4)]


def test_the_last_batch_of_a_query_that_ends_here_is_told_of_whatever_was_before() -> None:
    """With Trigger.AvailableNow, the last micro-batch is committed even if an earlier commit failed; there is no
    later chance."""
    world = World(10)
    progress = world.run("earliest")
    progress.end_here()
    world.coordinator_is_away = True
    progress.next_end(offsets(4), 3)
    world.coordinator_is_away = False

    progress.next_end(offsets(7), 3)
    assert world.told == []
    assert progress.next_end(offsets(10), 3) == offsets(10)
    assert world.told == [offsets(10)]


@pytest.mark.parametrize("ends_here", [False, True])
def test_a_topic_that_is_waited_for_does_not_hold_up_the_commits(ends_here: bool) -> None:
    """With `failOnDataLoss=false`, a query that waits for a missing topic commits its other positions as before: a
    coordinator takes no offset of a topic that does not exist."""
    world = World(10)
    gone = TopicPartition("gone", PartitionIndex(0))
    progress = world.run("earliest", fails=False)
    start = {**offsets(5), gone: Offset(7)}
    world.is_missing = ("gone",)
    if ends_here:
        progress.end_here()
    end = progress.next_end(start, 4)
    assert end == {**offsets(9), gone: Offset(7)}
    progress.ranges(start, end)

    world.now += 10
    end = progress.next_end(end, 4)
    assert world.told[-1] == offsets(9)
    world.now += 10
    progress.next_end(end, 4)
    assert world.told[-1] == offsets(10)
    if ends_here:
        return

    world.is_missing, world.ends = (), {**offsets(10), gone: Offset(9)}
    back = progress.next_end(end, None)
    progress.ranges(end, back)
    progress.next_end(back, None)
    assert world.told[-1] == back == {**offsets(10), gone: Offset(9)}


def test_a_limit_is_kept() -> None:
    """A limit is divided among all partitions, and new partitions are read from their start."""
    world = World(10, 10)

    assert world.run("earliest").next_end(offsets(0), 10) == offsets(5, 5)


def test_a_query_that_ends_here_reads_nothing_that_comes_later() -> None:
    """With Trigger.AvailableNow, a query stops at its target and reads no later records."""
    world = World(10)
    progress = world.run("earliest")
    progress.end_here()
    start = progress.start_fresh()
    world.ends = offsets(20)

    end = progress.next_end(start, None)
    progress.ranges(start, end)

    assert end == offsets(10)
    assert progress.next_end(end, None) == offsets(10)
    assert world.told == [offsets(10)]


def test_a_target_before_the_checkpoint_is_looked_up_again() -> None:
    """With Trigger.AvailableNow, a target before the checkpoint is requested again: a new leader or broker may report
    too little. Other targets stay."""
    world = World(9, 4)
    progress = world.run("earliest")
    progress.end_here()
    world.ends = offsets(20, 20, 20)

    end = progress.next_end(offsets(8, 8, 8), None)
    assert end == progress.latest == offsets(9, 20, 20)
    assert len(progress.ranges(offsets(8, 8, 8), end)) == 3
    world.ends = offsets(30, 30, 30)
    assert progress.next_end(end, None) == end


def test_the_target_in_a_topic_made_anew_is_the_end_of_the_new_topic() -> None:
    """With Trigger.AvailableNow and `failOnDataLoss=false`, a query reads a recreated topic from its start to its end.
    If it went on to the end of the old topic, records that arrive later would be skipped."""
    world = World(100, 100)
    progress = world.run("earliest", fails=False)
    progress.end_here()
    world.ends, world.anew = offsets(10, 120), ["t"]

    back = progress.next_end(offsets(50, 100), None)
    assert back == offsets(0, 0)
    assert progress.ranges(offsets(50, 100), back) == []

    end = progress.next_end(back, None)
    assert end == progress.latest == offsets(10, 120)
    world.ends = offsets(30, 130)
    assert progress.next_end(end, None) == end
    assert world.told[-1] == end


def test_the_first_batch_writes_down_where_latest_was() -> None:
    """The first micro-batch from `latest` is empty, so that its end in the checkpoint keeps the start for a restart."""
    world = World(10)
    progress = world.run("latest")
    start = progress.start_fresh()
    world.ends = offsets(15)

    end = progress.next_end(start, None)
    assert end == start == offsets(10)
    assert progress.ranges(start, end) == []
    assert progress.next_end(end, None) == offsets(15)
    assert progress.ranges(end, offsets(15)) == [OffsetRange(tp(0), Offset(10), Offset(15))]


def test_the_start_of_a_run_stays() -> None:
    """Spark asks for the start when it plans the first micro-batch and again when it runs it. Both answers are the
    same, so records that retention deletes in between are missed."""
    world = World(10)
    progress = world.run("earliest")
    start = progress.start_fresh()
    end = progress.next_end(start, None)
    world.beginnings = offsets(4)

    assert progress.start_fresh() == start == offsets(0)
    assert progress.ranges(start, end) == [OffsetRange(tp(0), Offset(0), Offset(10))]


@pytest.mark.parametrize("starting", ["latest", "earliest", AtTimestamp(Millis(5), latest_if_none=True)])
@pytest.mark.parametrize("crashes", [False, True])
def test_a_partition_that_is_added_before_the_first_batch_is_read_from_its_start(
    starting: OffsetLimit, crashes: bool
) -> None:
    """A partition that is added after the start was determined begins in the second micro-batch, at its start, also if
    the query crashes in the first one and determines another start."""
    world = World(10)
    world.first_of_time = {tp(0): Offset(7), tp(1): Offset(2)}
    progress = world.run(starting)
    start = progress.start_fresh()
    world.ends = offsets(10, 3)
    recorded_end = progress.next_end(start, None)
    progress.ranges(start, recorded_end)
    if crashes:
        progress = world.run(starting)
        progress.ranges(progress.start_fresh(), recorded_end)

    assert progress.ranges(recorded_end, progress.next_end(recorded_end, None)) == [
        OffsetRange(tp(1), Offset(0), Offset(3))
    ]


def test_a_crash_in_the_first_batch_skips_nothing() -> None:
    """After a crash in the first micro-batch, the restart plans the recorded batch unchanged and continues from its
    end."""
    world = World(17, 3)
    progress = world.run("latest")
    start = progress.start_fresh()
    assert start == offsets(17, 3)
    recorded_end = offsets(10)  # from before the crash, when the second partition did not exist yet

    assert progress.ranges(start, recorded_end) == []
    assert progress.ranges(start, recorded_end) == []  # Spark may plan a batch twice
    assert progress.next_end(recorded_end, None) == offsets(17, 3)
    assert progress.ranges(recorded_end, offsets(17, 3)) == [
        OffsetRange(tp(0), Offset(10), Offset(17)),
        OffsetRange(tp(1), Offset(0), Offset(3)),
    ]


def test_a_partition_without_a_record_of_the_time_starts_like_one_at_latest() -> None:
    """With `startingOffsetsByTimestampStrategy=latest`, a partition without a record of the time waits for the second
    micro-batch. Its start is in the checkpoint, because the next run finds a later end or a record of that time."""
    world = World(10, 10)
    world.first_of_time = {tp(1): Offset(4)}
    start_of_time = AtTimestamp(Millis(5), latest_if_none=True)
    progress = world.run(start_of_time)
    start = progress.start_fresh()
    assert start == offsets(10, 4)
    world.ends = offsets(12, 12)
    recorded_end = progress.next_end(start, None)
    assert recorded_end == offsets(10, 12)

    for now_first in ({tp(1): Offset(4)}, {tp(0): Offset(15), tp(1): Offset(4)}):
        world.ends, world.first_of_time = offsets(17, 17), now_first
        again = world.run(start_of_time)
        assert again.ranges(again.start_fresh(), recorded_end) == [OffsetRange(tp(1), Offset(4), Offset(12))]
        assert again.next_end(recorded_end, None) == offsets(17, 17)


def test_a_group_that_went_on_meanwhile_has_read_the_first_batch() -> None:
    """With `startingOffsets=committed` and an unfinished first micro-batch, records that another query of the group
    has read meanwhile are neither read again nor reported as lost."""
    world = World(20, 20)
    world.stands = offsets(15, 8)
    again = world.run("committed")
    recorded_end = offsets(10, 10)

    assert again.ranges(again.start_fresh(), recorded_end) == [OffsetRange(tp(1), Offset(8), Offset(10))]


def test_only_partitions_that_start_at_latest_wait_for_the_second_batch() -> None:
    """Only partitions that start at latest wait for the second micro-batch; others are read in the first."""
    world = World(10, 10)
    progress = world.run(offsets(-1, 2))
    start = progress.start_fresh()
    world.ends = offsets(12, 12)

    assert progress.next_end(start, None) == offsets(10, 12)


def test_a_log_that_shrank_after_the_first_batch_is_a_loss() -> None:
    """A log that shrinks after the first micro-batch is a loss; only the first micro-batch from `latest` tolerates
    it."""
    world = World(10)
    progress = world.run("latest")
    start = progress.start_fresh()
    progress.ranges(start, progress.next_end(start, None))
    world.ends = offsets(4)

    end = progress.next_end(start, None)

    with pytest.raises(DataLoss, match="changed from 10 to 4"):
        progress.ranges(start, end)


def test_too_little_waits_for_more() -> None:
    """A query waits until `minOffsetsPerTrigger` records are available, except in the first micro-batch of a run."""
    world = World(4, 4)
    progress = world.run("earliest", TriggerLimits(min_offsets=10))
    start = progress.start_fresh()
    first = progress.next_end(start, None)
    assert first == offsets(4, 4)
    progress.ranges(start, first)

    world.ends = offsets(9, 8)
    assert progress.next_end(first, None) == first
    world.ends = offsets(9, 9)
    assert progress.next_end(first, None) == offsets(9, 9)


def test_it_waits_no_longer_than_it_may() -> None:
    """A query waits no longer than `maxTriggerDelay`, counted from the previous micro-batch."""
    world = World(4)
    progress = world.run("earliest", TriggerLimits(min_offsets=10, max_delay_ms=60_000))
    progress.next_end(offsets(4), None)
    world.ends = offsets(5)

    world.now += 59.9
    assert progress.next_end(offsets(4), None) == offsets(4)
    world.now += 0.2
    assert progress.next_end(offsets(4), None) == offsets(5)


def test_at_least_and_at_most_go_together() -> None:
    """With a minimum and a maximum, the query waits for the minimum and then reads no more than the maximum."""
    world = World(4)
    progress = world.run("earliest", TriggerLimits(max_offsets=10, min_offsets=10))
    progress.next_end(offsets(4), 10)
    world.ends = offsets(40)

    assert progress.next_end(offsets(4), 10) == offsets(14)


def test_a_query_that_ends_does_not_wait() -> None:
    """Trigger.AvailableNow and Trigger.Once do not wait for the minimum, since no later micro-batch would read the
    rest."""
    world = World(4)
    to_the_end = world.run("earliest", TriggerLimits(min_offsets=10))
    to_the_end.end_here()
    to_the_end.next_end(offsets(1), None)
    assert to_the_end.next_end(offsets(2), None) == offsets(4)

    once = world.run("earliest", TriggerLimits(min_offsets=10))
    once.next_end(offsets(1), None)
    assert once.next_end(offsets(2), None, may_wait=False) == offsets(4)


@pytest.mark.parametrize("ends_here", [False, True])
def test_a_restart_looks_whether_everything_is_there(ends_here: bool) -> None:
    """A restart checks all topics of the options, also a mistyped topic that is not in the checkpoint yet."""
    world = World(10)
    world.is_missing = ("typo",)
    progress = world.run("earliest")
    if ends_here:
        progress.end_here()

    with pytest.raises(MissingTopic, match="typo: no such topic"):
        progress.next_end(offsets(4), None)


def test_a_query_that_is_to_stop_plans_nothing_and_commits(tmp_path: Path) -> None:
    """While its stop file exists, a query plans nothing, and still commits the finished micro-batch."""
    world = World(10)
    file = tmp_path / "stop"
    progress = world.run("earliest", stop_file=StopFile(str(file), clock=lambda: world.now))
    assert progress.next_end(offsets(4), None) == offsets(10)

    file.touch()
    world.now += 1
    world.ends = offsets(20)
    assert progress.next_end(offsets(10), None) == offsets(10)
    assert world.told[-1] == offsets(10)
    assert progress.latest == offsets(20)

    file.unlink()
    world.now += 1
    assert progress.next_end(offsets(10), None) == offsets(20)


def finish(checkpoint: Path, batch: int, end: int) -> None:
    """Writes the files of a finished micro-batch, as Spark does."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(exist_ok=True)
    (checkpoint / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"t":{{"0":{end}}}}}')
    (checkpoint / "commits" / str(batch)).write_text("v1")


def test_a_query_follows_another_one(tmp_path: Path) -> None:
    """A query that follows another one plans only what that one has finished, within its own limit of rows, and does
    not wait for more records; the end of the log is told as it is."""
    world = World(20)
    followed = FollowedCheckpoint(str(tmp_path), lambda: world.now)
    progress = world.run("earliest", TriggerLimits(min_offsets=100), followed=followed)
    start = progress.start_fresh()
    assert progress.next_end(start, None) == start

    finish(tmp_path, 0, 9)
    world.now += 1
    assert progress.next_end(start, 4) == offsets(4)
    assert progress.next_end(offsets(4), None) == offsets(9)
    assert progress.next_end(offsets(9), None) == offsets(9)
    assert progress.latest == offsets(20)


def test_a_query_that_follows_and_ends_here(tmp_path: Path) -> None:
    """With Trigger.AvailableNow, a query that follows ends where the other one was when it started, and commits that as
    its last micro-batch."""
    world = World(20)
    finish(tmp_path, 0, 9)
    progress = world.run("earliest", followed=FollowedCheckpoint(str(tmp_path), lambda: world.now))
    progress.end_here()
    finish(tmp_path, 1, 15)
    start = progress.start_fresh()

    world.now += 1
    end = progress.next_end(start, None)
    progress.ranges(start, end)
    assert progress.next_end(end, None) == end == offsets(9)

    assert world.told == [offsets(9)]

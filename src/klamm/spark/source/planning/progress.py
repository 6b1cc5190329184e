"""Plans the micro-batches of a streaming query, from its start to its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from klamm.protocol.types import Offset, TopicPartition
from klamm.spark.source.checkpoint.followed_checkpoint import FollowedCheckpoint
from klamm.spark.source.checkpoint.initial_offsets import InitialOffsets
from klamm.spark.source.group.group_commits import GroupCommits
from klamm.spark.source.offsets import LATEST_OFFSET, PartitionOffsets, limit_rows
from klamm.spark.source.options.positions import AtTimestamp, AtTimestamps, OffsetLimit
from klamm.spark.source.options.read_limits import TriggerLimits
from klamm.spark.source.planning.planner import OffsetRange, Planner, committed_start
from klamm.spark.source.planning.stop_file import StopFile

__all__ = ["StreamProgress"]


class StreamProgress:
    """The state of one run of a query.

    A query that starts at `latest` must store these offsets. Otherwise records that arrive between a crash in its first
    micro-batch and the restart would be skipped. `InitialOffsets` stores them in a file, which not every session finds.
    So the first micro-batch reads no records of partitions that start at `latest`: Spark stores its end offsets, which
    are the start of these partitions. The same applies to partitions that were added after the start was determined:
    they are read from their beginning, and a restart would take another start for them.
    """

    def __init__(
        self,
        starting: OffsetLimit,
        planner: Planner,
        commits: GroupCommits,
        limits: TriggerLimits = TriggerLimits(),  # noqa: B008 (it can't be changed)
        *,
        clock: Callable[[], float] = time.monotonic,
        initial: InitialOffsets = InitialOffsets(),  # noqa: B008 (it can't be changed)
        stop_file: StopFile | None = None,
        followed: FollowedCheckpoint | None = None,
    ) -> None:
        self._starting = starting
        self._planner = planner
        self._commits = commits
        self._limits = limits
        self._clock = clock
        self._initial = initial
        self._stop_file = stop_file
        self._followed = followed
        self._triggered_at = float("-inf")
        self._fresh_start: PartitionOffsets | None = None
        """The start of this run, if there is no checkpoint or only an unfinished first micro-batch in it."""
        self._first_batch_planned = False
        self._has_begun = False
        """Whether the subscribed topics and partitions were checked to exist."""
        self._target: PartitionOffsets | None = None
        self.latest: PartitionOffsets = {}
        """The end of the log at the last check."""

    def end_here(self) -> None:
        """Sets the end of the query to the current end of the log, or of the query that it follows (AvailableNow)."""
        self._target = self._planner.settled()
        if self._followed is not None:
            self._followed.fix()

    def start_fresh(self) -> PartitionOffsets:
        """Returns the start of a query without a finished micro-batch: the same one each time.

        Raises `OptionError`, `MissingTopic` or `DataLoss`.
        """
        if self._fresh_start is not None:
            # Spark asks once to plan the first micro-batch and once to run it.
            return self._fresh_start
        self._commits.starts_fresh()
        self._fresh_start = self._initial.kept(self._resolve_start)
        self._first_batch_planned = False
        self._has_begun = True
        return self._fresh_start

    def _resolve_start(self) -> PartitionOffsets:
        if self._starting == "committed":
            return committed_start(self._planner, self._commits)
        return self._planner.resolve("startingOffsets", self._starting)

    def next_end(
        self, start: Mapping[TopicPartition, Offset], maximum_rows: int | None, *, may_wait: bool = True
    ) -> PartitionOffsets:
        """Returns the end of the next micro-batch.

        `start` is the end of the last finished micro-batch. Returns `start` itself if there are too few records and
        `may_wait` is true, and if the query is to stop. First commits `start` to the group. Raises what the commit and
        the cluster raise, and `QueryFenced`.
        """
        is_first = self._fresh_start is not None and not self._first_batch_planned
        if not is_first:
            self._fresh_start = None
            self._commits.resumes(start)
            self._commits.finished_up_to(start, is_last=self._is_at_its_end(start))
        self.latest = self._latest(start)
        self._commits.leave_out(self._planner.gone)
        end = self._bounded(start, self.latest)
        if self._is_to_stop() or (may_wait and self._target is None and self._has_too_little(start)):
            end = dict(start)
        elif maximum_rows is not None:
            end = limit_rows(maximum_rows, self._planner.start_of_new(start, end), end)
        if is_first:
            end.update((held, start[held]) for held in self._held() if held in start and held in end)
            beginnings = self._planner.start_of_new(start, end)
            end.update((added, beginnings[added]) for added in end.keys() & beginnings.keys() - start.keys())
        if end != start:
            end = self._planner.back_to_start(start, end)
            if self._target is not None:
                # The next call requests the ends of the new topics.
                self._target = self._planner.without_recreated(self._target)
        self._commits.may_plan(end)
        return end

    def _bounded(self, start: Mapping[TopicPartition, Offset], end: PartitionOffsets) -> PartitionOffsets:
        return dict(end) if self._followed is None else self._followed.bounded(start, end)

    def _is_to_stop(self) -> bool:
        return self._stop_file is not None and self._stop_file.exists()

    def _latest(self, start: Mapping[TopicPartition, Offset]) -> PartitionOffsets:
        """Returns the end of the log, or of the run. Raises `MissingTopic` or `DataLoss` for missing partitions."""
        if self._target is not None:
            # The target was determined before the position of the query was known.
            self._target = self._planner.require(start, self._planner.not_before(start, self._target))
            return self._target
        if self._has_begun:
            return self._planner.require(start, self._planner.latest_since(start))
        # The options may subscribe to more than in the previous run.
        self._has_begun = True
        return self._planner.require(start, self._planner.not_before(start, self._planner.settled()))

    def _is_at_its_end(self, start: Mapping[TopicPartition, Offset]) -> bool:
        """Returns whether an AvailableNow query has read everything up to its end."""
        if self._target is None:
            return False
        return all(start.get(key, -1) >= offset for key, offset in self._bounded(start, self._target).items())

    def _has_too_little(self, start: Mapping[TopicPartition, Offset]) -> bool:
        """Applies `minOffsetsPerTrigger` and `maxTriggerDelay`, like `delayBatch` of Spark's `KafkaMicroBatchStream`.

        The first micro-batch of a run does not wait. A query that follows another one does not wait either, because the
        other one has waited.
        """
        if self._limits.min_offsets is None or self._followed is not None:
            return False
        now = self._clock()
        if (now - self._triggered_at) * 1000 < self._limits.max_delay_ms:
            available = sum(end - start.get(topic_partition, 0) for topic_partition, end in self.latest.items())
            if available < self._limits.min_offsets:
                return True
        self._triggered_at = now
        return False

    def ranges(self, start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]) -> list[OffsetRange]:
        """Returns the ranges that a micro-batch between these offsets reads. Raises `DataLoss`, `QueryFenced`."""
        self._commits.may_plan(())
        if start != end:
            self._commits.resumes(start, end)
            self._commits.planned_up_to(end)
        if self._fresh_start is not None and start == self._fresh_start:
            self._first_batch_planned = True
            start = self._recorded_start(start, end)
        return self._planner.stream_ranges(start, end)

    def _recorded_start(
        self, start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]
    ) -> PartitionOffsets:
        """Returns the start of a repeated first micro-batch; a start that has become later since is not data loss."""
        has_moved = self._may_have_moved()
        return {
            topic_partition: min(offset, end[topic_partition]) if topic_partition in has_moved else offset
            for topic_partition, offset in start.items()
            if topic_partition in end
        }

    def _held(self) -> set[TopicPartition]:
        """Returns the partitions that start at `latest`."""
        if isinstance(self._starting, dict):
            return {held for held, offset in self._starting.items() if offset == LATEST_OFFSET}
        if isinstance(self._starting, AtTimestamp | AtTimestamps):
            return set(self._planner.without_record)
        if self._starting == "committed":
            return set(self._commits.uncommitted) if self._commits.resets_to_latest else set()
        return set(self._fresh_start or ()) if self._starting == "latest" else set()

    def _may_have_moved(self) -> set[TopicPartition]:
        """Returns the partitions whose start may be later in another run.

        These start at `latest` or at the group's commits. A partition without a record of a time may have one by
        now."""
        by_time = isinstance(self._starting, AtTimestamp | AtTimestamps) and self._starting.latest_if_none
        return set(self._fresh_start or ()) if by_time or self._starting == "committed" else self._held()

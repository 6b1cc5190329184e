"""The reader of streaming queries.

One instance lives in the query's planning process while the query runs; Spark calls its `initialOffset`,
`latestOffset`, `partitions` and `stop`. Pickled copies go to the workers, where Spark calls only `read`. So the
constructor opens no connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from klamm.client.cluster import Cluster
from klamm.spark.query_checkpoints import ask_driver
from klamm.spark.source.checkpoint.followed_checkpoint import FollowedCheckpoint
from klamm.spark.source.checkpoint.initial_offsets import InitialOffsets
from klamm.spark.source.errors import LossPolicy
from klamm.spark.source.group.query_group import QueryGroup, named_client
from klamm.spark.source.offsets import OffsetRange, offsets_from_json, offsets_to_json
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.plain_errors import without_traceback
from klamm.spark.source.planning.log_offsets import SubscribedOffsets, planner_for
from klamm.spark.source.planning.progress import StreamProgress
from klamm.spark.source.planning.range_division import share_tasks
from klamm.spark.source.planning.stop_file import StopFile
from klamm.spark.source.planning_process import is_the_end
from klamm.spark.source.tasks.task_reader import read_task

__all__ = ["KlammStreamReader"]

# Offsets in the checkpoint's form, as arguments and as results.
_Recorded = Mapping[str, Mapping[str, int]]
_Stored = dict[str, dict[str, int]]


class KlammStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics in micro-batches, with the guarantees in `docs/reference/spark-source.md`."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._progress: StreamProgress | None = None
        self._cluster: Cluster | None = None
        self._group: QueryGroup | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_progress": None, "_cluster": None, "_group": None}

    @property
    def progress(self) -> StreamProgress:
        """The planning process's state of the query; the first use connects to the cluster.

        With `klamm.group.mode=member`, the first use waits until the query owns its group.
        """
        if self._progress is None:
            options, followed = self.options, self.options.klamm.followed_checkpoint
            self._cluster = Cluster(named_client(options.client))
            log = SubscribedOffsets(self._cluster, options.subscription)
            self._group = QueryGroup(options)
            self._group.enter(log.latest() if options.klamm.group_mode == "member" else ())
            self._progress = StreamProgress(
                options.starting_offsets,
                planner_for(log, options),
                self._group.commits,
                options.limits,
                initial=InitialOffsets(partial(ask_driver, options.fingerprint)),
                stop_file=None if options.klamm.stop_file is None else StopFile(options.klamm.stop_file),
                followed=None if followed is None else FollowedCheckpoint(followed),
            )
        return self._progress

    @without_traceback
    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns the limit by `maxOffsetsPerTrigger` if it is set, else by `minOffsetsPerTrigger`; Spark accepts only
        one.

        Spark calls this before it reads the checkpoint. So a member waits here for its group: the previous owner may
        have continued in the same checkpoint.
        """
        if self.options.klamm.group_mode == "member":
            _ = self.progress
        limits = self.options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        """Ends the query at the current end of the log."""
        self.progress.end_here()

    @without_traceback
    def initialOffset(self) -> _Stored:
        """Returns the start of a query without a checkpoint."""
        return offsets_to_json(self.progress.start_fresh())

    @without_traceback
    def latestOffset(self, start: _Recorded, limit: ReadLimit) -> _Stored:
        """Returns the end of the next micro-batch. Commits `start`, the end of the finished one, to the group."""
        maximum = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        may_wait = not isinstance(limit, ReadAllAvailable)
        return offsets_to_json(self.progress.next_end(offsets_from_json(start), maximum, may_wait=may_wait))

    def reportLatestOffset(self) -> _Stored | None:
        """Returns the end of the log at the last check, without the limit of the micro-batch."""
        return offsets_to_json(self.progress.latest) if self.progress.latest else None

    @without_traceback
    def partitions(self, start: _Recorded, end: _Recorded) -> list[InputPartition]:
        """Returns the tasks for the records between two offsets. A partition with many records has one task or
        several."""
        ranges = self.progress.ranges(offsets_from_json(start), offsets_from_json(end))
        return [InputPartition(task) for task in share_tasks(ranges, self.options.division)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the records of one task."""
        task: tuple[OffsetRange, ...] = partition.value
        return read_task(
            self.options.reading_client,
            task,
            LossPolicy(fail=self.options.fail_on_data_loss),
            include_headers=self.options.include_headers,
        )

    @is_the_end
    def stop(self) -> None:
        """Commits the last finished micro-batch to the group, leaves the group, and closes the connections."""
        if self._group is not None:
            self._group.stop()
        if self._cluster is not None:
            self._cluster.close()

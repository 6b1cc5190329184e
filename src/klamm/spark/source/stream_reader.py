"""The source as a streaming query sees it.

One instance lives in the query's planning process for as long as the query runs; there `initialOffset`,
`latestOffset`, `partitions` and `stop` are called. Pickled copies go to the workers and only `read`. So the
constructor connects to nothing.
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
from klamm.spark.source.errors import LossPolicy
from klamm.spark.source.initial_offsets import InitialOffsets
from klamm.spark.source.log_offsets import SubscribedOffsets, planner_for
from klamm.spark.source.offsets import OffsetRange, offsets_from_json, offsets_to_json
from klamm.spark.source.options import SourceOptions
from klamm.spark.source.plain_errors import without_traceback
from klamm.spark.source.planning_process import is_the_end
from klamm.spark.source.progress import StreamProgress
from klamm.spark.source.query_group import QueryGroup, named_client
from klamm.spark.source.range_division import share_tasks
from klamm.spark.source.task_reader import read_task

__all__ = ["KlammStreamReader"]

# Offsets in the checkpoint's form, as they are given and as they are returned.
_Recorded = Mapping[str, Mapping[str, int]]
_Stored = dict[str, dict[str, int]]


class KlammStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics in micro-batches; `docs/reference/spark-source.md` says what it promises."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._progress: StreamProgress | None = None
        self._cluster: Cluster | None = None
        self._group: QueryGroup | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_progress": None, "_cluster": None, "_group": None}

    @property
    def progress(self) -> StreamProgress:
        """What the planning process knows of the query; the first use connects to the cluster.

        A query that is to own its group waits here until it does.
        """
        if self._progress is None:
            options = self.options
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
            )
        return self._progress

    @without_traceback
    def getDefaultReadLimit(self) -> ReadLimit:
        """`maxOffsetsPerTrigger`, if it is set, or `minOffsetsPerTrigger`; Spark takes one from a Python source.

        Spark asks for it before it reads the checkpoint, and so here is the place to wait for the group: whoever owned
        it before may have gone on in the same checkpoint.
        """
        if self.options.klamm.group_mode == "member":
            _ = self.progress
        limits = self.options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing that comes after this moment is read."""
        self.progress.end_here()

    @without_traceback
    def initialOffset(self) -> _Stored:
        """Where a query without a checkpoint starts."""
        return offsets_to_json(self.progress.start_fresh())

    @without_traceback
    def latestOffset(self, start: _Recorded, limit: ReadLimit) -> _Stored:
        """Where the next micro-batch may end. Tells the group of the micro-batch that ended at `start`."""
        maximum = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        may_wait = not isinstance(limit, ReadAllAvailable)
        return offsets_to_json(self.progress.next_end(offsets_from_json(start), maximum, may_wait=may_wait))

    def reportLatestOffset(self) -> _Stored | None:
        """The end of the log as last seen, whatever the limit of the micro-batch."""
        return offsets_to_json(self.progress.latest) if self.progress.latest else None

    @without_traceback
    def partitions(self, start: _Recorded, end: _Recorded) -> list[InputPartition]:
        """The tasks for what lies between the two offsets: a partition with much has one of its own, or several."""
        ranges = self.progress.ranges(offsets_from_json(start), offsets_from_json(end))
        return [InputPartition(task) for task in share_tasks(ranges, self.options.division)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task."""
        task: tuple[OffsetRange, ...] = partition.value
        return read_task(
            self.options.reading_client,
            task,
            LossPolicy(fail=self.options.fail_on_data_loss),
            include_headers=self.options.include_headers,
        )

    @is_the_end
    def stop(self) -> None:
        """Tells the group what there is to tell, leaves it, and hangs up."""
        if self._group is not None:
            self._group.stop()
        if self._cluster is not None:
            self._cluster.close()

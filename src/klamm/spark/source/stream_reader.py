"""The source as a streaming query sees it.

One instance lives in the query's planning process for as long as the query runs; there `initialOffset`,
`latestOffset`, `partitions` and `stop` are called. Pickled copies go to the workers and only `read`. So the
constructor connects to nothing.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from klamm.client.cluster import Cluster
from klamm.client.group_offsets import GroupOffsets
from klamm.spark.source.errors import LossPolicy
from klamm.spark.source.group_commits import GroupCommits
from klamm.spark.source.log_offsets import SubscribedOffsets
from klamm.spark.source.offsets import offsets_from_json, offsets_to_json
from klamm.spark.source.options import SourceOptions
from klamm.spark.source.partition_reader import read_range
from klamm.spark.source.planner import OffsetRange, Planner
from klamm.spark.source.progress import StreamProgress

__all__ = ["KlammStreamReader"]

# The query waits while it commits; a coordinator that is away for longer hears of the offsets at the next trigger.
_COMMIT_PATIENCE_MS = 10_000

# Offsets in the checkpoint's form, as they are given and as they are returned.
_Recorded = Mapping[str, Mapping[str, int]]
_Stored = dict[str, dict[str, int]]


class KlammStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics in micro-batches; `docs/reference/spark-source.md` says what it promises."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._progress: StreamProgress | None = None
        self._clusters: list[Cluster] = []

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_progress": None, "_clusters": []}

    @property
    def progress(self) -> StreamProgress:
        """What the planning process knows of the query; the first use connects to the cluster."""
        if self._progress is None:
            options = self.options
            cluster = Cluster(options.client)
            self._clusters = [cluster]
            planner = Planner(
                SubscribedOffsets(cluster, options.subscription),
                LossPolicy(fail=options.fail_on_data_loss),
                time.sleep,
            )
            self._progress = StreamProgress(options.starting_offsets, planner, GroupCommits(self._group()))
        return self._progress

    def _group(self) -> GroupOffsets | None:
        if self.options.group_id is None:
            return None
        client = self.options.client
        patience_ms = min(client.default_api_timeout_ms, _COMMIT_PATIENCE_MS)
        cluster = Cluster(dataclasses.replace(client, default_api_timeout_ms=patience_ms))
        self._clusters.append(cluster)
        return GroupOffsets(cluster, self.options.group_id)

    def getDefaultReadLimit(self) -> ReadLimit:
        """`maxOffsetsPerTrigger`, if it is set."""
        if self.options.max_offsets_per_trigger is None:
            return ReadAllAvailable()
        return ReadMaxRows(self.options.max_offsets_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing that comes after this moment is read."""
        self.progress.end_here()

    def initialOffset(self) -> _Stored:
        """Where a query without a checkpoint starts."""
        return offsets_to_json(self.progress.start_fresh())

    def latestOffset(self, start: _Recorded, limit: ReadLimit) -> _Stored:
        """Where the next micro-batch may end. Tells the group of the micro-batch that ended at `start`."""
        maximum = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return offsets_to_json(self.progress.next_end(offsets_from_json(start), maximum))

    def reportLatestOffset(self) -> _Stored | None:
        """The end of the log as last seen, whatever the limit of the micro-batch."""
        return offsets_to_json(self.progress.latest) if self.progress.latest else None

    def partitions(self, start: _Recorded, end: _Recorded) -> list[InputPartition]:
        """One task for each partition that has something between the two offsets."""
        ranges = self.progress.ranges(offsets_from_json(start), offsets_from_json(end))
        return [InputPartition(offsets) for offsets in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task."""
        offsets: OffsetRange = partition.value
        return read_range(
            self.options.client,
            offsets,
            LossPolicy(fail=self.options.fail_on_data_loss),
            include_headers=self.options.include_headers,
        )

    def stop(self) -> None:
        """Hangs up."""
        for cluster in self._clusters:
            cluster.close()

"""The source as a batch read sees it: planned once, on the driver, and read by workers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from klamm.client.cluster import Cluster
from klamm.spark.source.errors import LossPolicy
from klamm.spark.source.log_offsets import SubscribedOffsets
from klamm.spark.source.options import SourceOptions
from klamm.spark.source.partition_reader import read_range
from klamm.spark.source.planner import OffsetRange, Planner

__all__ = ["KlammBatchReader"]


class KlammBatchReader(DataSourceReader):
    """Reads what lies between two offsets of each partition; commits to no group."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """One task for each partition that has something to read."""
        cluster = Cluster(self.options.client)
        try:
            planner = Planner(
                SubscribedOffsets(cluster, self.options.subscription),
                LossPolicy(fail=self.options.fail_on_data_loss),
                time.sleep,
            )
            ranges = planner.batch_ranges(self.options.starting_offsets, self.options.ending_offsets)
        finally:
            cluster.close()
        return [InputPartition(offsets) for offsets in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task; none for the empty task that Spark makes up when there is nothing to read."""
        offsets: OffsetRange | None = partition.value
        if offsets is None:
            return iter(())
        return read_range(
            self.options.client,
            offsets,
            LossPolicy(fail=self.options.fail_on_data_loss),
            include_headers=self.options.include_headers,
        )

"""The reader of batch queries: planned once, on the driver, and executed by workers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from klamm.client.cluster import Cluster
from klamm.spark.source.errors import LossPolicy
from klamm.spark.source.group.query_group import commits_of
from klamm.spark.source.offsets import OffsetRange
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.plain_errors import without_traceback
from klamm.spark.source.planning.log_offsets import SubscribedOffsets, planner_for
from klamm.spark.source.planning.planner import committed_start
from klamm.spark.source.planning.pushed_filters import Restriction
from klamm.spark.source.tasks.partition_reader import read_range

__all__ = ["FilteringBatchReader", "KlammBatchReader"]


# Versions of Spark without `pushLimit` keep the plan with its filters in the data source, which all scans of one
# `load()` share, instead of in the scan.
_SPARK_KEEPS_FILTERS: Final = not hasattr(DataSourceReader, "pushLimit")

_logger = logging.getLogger(__name__)


class KlammBatchReader(DataSourceReader):
    """Reads the records between two offsets of each partition; commits to no group."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.restriction: Restriction | None = None

    @without_traceback
    def partitions(self) -> list[InputPartition]:
        """Returns one task for each range: each partition with records to read, divided as the options request."""
        cluster = Cluster(self.options.client)
        try:
            log = SubscribedOffsets(cluster, self.options.subscription)
            planner = planner_for(log, self.options, self.restriction)
            starting = self.options.starting_offsets
            if starting == "committed":
                starting = committed_start(planner, commits_of(self.options, cluster))
            ranges = planner.batch_ranges(starting, self.options.ending_offsets)
        finally:
            cluster.close()
        return [InputPartition(offsets) for offsets in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Reads the records of one task; none for the empty task that Spark creates when there is nothing to read."""
        offsets: OffsetRange | None = partition.value
        if offsets is None:
            return iter(())
        return read_range(
            self.options.reading_client,
            offsets,
            LossPolicy(fail=self.options.fail_on_data_loss),
            include_headers=self.options.include_headers,
        )


class FilteringBatchReader(KlammBatchReader):
    """A batch reader with filters pushed down to the log.

    It is a separate class, since Spark fails every read with a reader that takes filters unless
    `spark.sql.python.filterPushdown.enabled` is set.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes filters; returns those that Spark must still apply."""
        if _SPARK_KEEPS_FILTERS:
            _logger.warning(
                "klamm.filterPushdown: this version of Spark keeps what a filter chose for every other use of the same "
                "load(): call load() again for another filter, or for none"
            )
        self.restriction = Restriction()
        return list(self.restriction.add(filters))

"""Reads one task of a micro-batch: a range of one partition, or small ranges of several partitions, fetched together.

Fetching together handles only the normal case. `partition_reader.py` reads the rest of a range after an error, or if
the range does not arrive in one response. So only that module detects data loss.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import pyarrow as pa

from klamm.client.config import ClientConfig
from klamm.client.fetch import FetchRange, fetch_together
from klamm.protocol.errors import KafkaError
from klamm.protocol.types import Offset
from klamm.spark.frozen_objects import spare_garbage_collections
from klamm.spark.source.errors import LossPolicy
from klamm.spark.source.offsets import OffsetRange
from klamm.spark.source.tasks.partition_reader import is_planned_topic, learn_plan, read_range, shared_cluster
from klamm.spark.source.tasks.spark_batches import SparkBatches
from klamm.spark.source.tasks.tables import TableBuilder

__all__ = ["read_task"]


def read_task(
    config: ClientConfig, task: Sequence[OffsetRange], loss: LossPolicy, *, include_headers: bool
) -> Iterator[pa.RecordBatch]:
    """Yields the visible records of some ranges, those of a partition in the order of their offsets.

    Raises what `read_range` raises.
    """
    left = task
    if len(task) > 1:
        left = yield from _read_together(config, task, include_headers=include_headers)
    for offsets in left:
        yield from read_range(config, offsets, loss, include_headers=include_headers)
    spare_garbage_collections()


def _read_together(
    config: ClientConfig, task: Sequence[OffsetRange], *, include_headers: bool
) -> Generator[pa.RecordBatch, None, list[OffsetRange]]:
    """Yields the records of the first responses, several ranges in one record batch. Returns the ranges still to
    read."""
    cluster = shared_cluster(config)
    learn_plan(cluster, task)
    # Requests use the compared topic ids, so no other topic of the same name can be read. (Requests to older brokers
    # use names; these brokers detect another topic by the leader epoch.)
    planned = [offsets for offsets in task if is_planned_topic(cluster, offsets)]
    left = [offsets for offsets in task if not is_planned_topic(cluster, offsets)]
    given = [offsets.start for offsets in planned]
    tables = TableBuilder(0, 0, include_headers=include_headers, check_crcs=config.check_crcs)
    spark = SparkBatches([offsets.topic_partition for offsets in planned], include_headers=include_headers)
    ranges = [FetchRange(offsets.topic_partition, offsets.start, offsets.end) for offsets in planned]
    taken = list(given)
    try:
        for number, fetched in fetch_together(cluster, ranges):
            tables.go_on_with(number, planned[number].start, planned[number].end)
            for columns in tables.add(fetched):
                yield spark.batch(columns)
                given = list(taken)
                if columns.ranges[-1][0] == number:
                    given[number] = Offset(columns.offsets[-1].as_py() + 1)
            taken[number] = fetched.next_offset
        for columns in tables.finish():
            yield spark.batch(columns)
        given = taken
    except KafkaError:
        # A malformed record in an unknown range: reading each range alone finds the range. What Spark has not received
        # of the others is read again.
        pass
    left += [
        offsets._replace(start=position)
        for offsets, position in zip(planned, given, strict=True)
        if position < offsets.end
    ]
    return left

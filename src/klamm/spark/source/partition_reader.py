"""What an executor does: reads one range of one partition and hands it to Spark as Arrow record batches.

Spark's workers are processes that are used again and again, so the connections are kept from task to task in this
module.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.errors import LogEndsEarly, OffsetOutOfRange, PartitionMissing
from klamm.client.fetch import stream_batches
from klamm.client.list_offsets import EARLIEST, LATEST, list_offsets
from klamm.protocol.errors import KafkaError
from klamm.protocol.types import Offset
from klamm.spark.source.columns import ClosedBatch, RecordColumns, arrow_array, open_batches, repeated_text
from klamm.spark.source.errors import LossPolicy
from klamm.spark.source.planner import OffsetRange
from klamm.spark.source.schema import arrow_schema
from klamm.spark.source.visible import visible_batches

__all__ = ["read_range", "shared_cluster"]

# Spark takes batches of 10,000 to 50,000 rows fastest; large records fill a batch sooner.
_ROWS: Final = 20_000
_MAXIMUM_ROWS: Final = 50_000
_BYTES: Final = 8 * 1024 * 1024

_clusters: dict[tuple[int, ClientConfig], Cluster] = {}


def shared_cluster(config: ClientConfig) -> Cluster:
    """This process's client for these settings. A forked child makes its own: sockets can't be shared."""
    key = (os.getpid(), config)
    cluster = _clusters.get(key)
    if cluster is None:
        cluster = _clusters[key] = Cluster(config)
    return cluster


def read_range(
    config: ClientConfig, offsets: OffsetRange, loss: LossPolicy, *, include_headers: bool
) -> Iterator[pa.RecordBatch]:
    """The visible records of a range, in the order of their offsets.

    Raises `DataLoss` when offsets are gone and that is to fail the query, and the errors of `stream_batches`.
    """
    cluster = shared_cluster(config)
    build = _BatchBuilder(offsets, include_headers=include_headers)
    position = offsets.start
    while position < offsets.end:
        try:
            for part in stream_batches(cluster, offsets.topic_partition, position, offsets.end):
                for batch in visible_batches(part.batches, part.aborted_transactions, check_crcs=config.check_crcs):
                    yield from build.add(batch)
                position = part.next_offset
        except OffsetOutOfRange as error:
            position = _next_available(cluster, offsets, error.offset, loss)
            yield from build.skip_to(position)
        except KafkaError as error:
            raise KafkaError(error.code, f"{offsets.topic_partition}: {error.message}") from error
        except (LogEndsEarly, PartitionMissing) as error:
            _report(offsets, position, str(error), loss)
            break
    yield from build.finish()


def _next_available(cluster: Cluster, offsets: OffsetRange, position: Offset, loss: LossPolicy) -> Offset:
    """Where to go on after an offset that is not there: the log's start, or the end of the range if nothing is left."""
    topic_partition = offsets.topic_partition
    start = list_offsets(cluster, {topic_partition: EARLIEST}).get(topic_partition)
    end = list_offsets(cluster, {topic_partition: LATEST}).get(topic_partition)
    if start is None or end is None:
        available = "the partition does not exist"
    else:
        available = f"the log has [{start.offset}, {end.offset})"
    _report(offsets, position, available, loss)
    if start is None or end is None or position >= end.offset:
        return offsets.end
    # Between the fetch and now the log may have changed again; never go back.
    return max(position, min(start.offset, offsets.end))


def _report(offsets: OffsetRange, position: Offset, reason: str, loss: LossPolicy) -> None:
    loss.report(
        f"Could not read records in range [{position}, {offsets.end}) for partition {offsets.topic_partition}: {reason}"
    )


class _BatchBuilder:
    """Gathers Kafka's batches until they make a good record batch for Spark."""

    def __init__(self, offsets: OffsetRange, *, include_headers: bool) -> None:
        self._offsets = offsets
        self._start = offsets.start
        self._include_headers = include_headers
        self._schema = arrow_schema(include_headers=include_headers)
        self._batches: list[ClosedBatch] = []
        self._rows = 0
        self._bytes = 0
        self._constants = (pa.nulls(0, pa.string()), pa.nulls(0, pa.int32()))

    def add(self, batch: ClosedBatch) -> Iterator[pa.RecordBatch]:
        """Takes a batch, and gives what is ready."""
        self._batches.append(batch)
        self._rows += batch.header.records_count
        self._bytes += len(batch.data)
        if self._rows >= _ROWS or self._bytes >= _BYTES:
            yield from self.finish()

    def skip_to(self, offset: Offset) -> Iterator[pa.RecordBatch]:
        """Takes no offsets before this one any more: a batch may begin before the start of the log and end after."""
        yield from self.finish()
        self._start = offset

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Gives what has been gathered."""
        if not self._batches:
            return
        columns = open_batches(self._batches, self._start, self._offsets.end, include_headers=self._include_headers)
        self._batches, self._rows, self._bytes = [], 0, 0
        if len(columns):
            whole = self._record_batch(columns)
            for row in range(0, len(columns), _MAXIMUM_ROWS):
                yield whole.slice(row, _MAXIMUM_ROWS)

    def _record_batch(self, columns: RecordColumns) -> pa.RecordBatch:
        count = len(columns)
        topics, partitions = self._repeated(count)
        arrays = [
            columns.keys,
            columns.values,
            topics,
            partitions,
            arrow_array(pa.int64(), columns.offsets),
            arrow_array(pa.timestamp("us", tz="UTC"), columns.timestamps_ms * 1000),
            arrow_array(pa.int32(), columns.timestamp_types),
        ]
        if columns.headers is not None:
            arrays.append(columns.headers)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _repeated(self, count: int) -> tuple[Any, Any]:
        """The columns topic and partition, whose one value is written out once and then shared."""
        if len(self._constants[0]) < count:
            topic, partition = self._offsets.topic_partition
            self._constants = (
                repeated_text(topic, count),
                arrow_array(pa.int32(), np.full(count, partition, np.int32)),
            )
        topics, partitions = self._constants
        return topics.slice(0, count), partitions.slice(0, count)

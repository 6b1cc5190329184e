"""Turns tables into Spark's Arrow record batches, with the columns for topic and partition."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import pyarrow as pa

from klamm.protocol.types import TopicPartition
from klamm.spark.source.tasks.arrow_schema import arrow_schema
from klamm.spark.source.tasks.columns import RecordColumns

__all__ = ["SparkBatches"]

_Places: TypeAlias = "tuple[pa.Array[Any], pa.Array[Any]]"
"""Topics and partitions."""


class SparkBatches:
    """Builds the record batches of one task, or one range."""

    def __init__(self, partitions: Sequence[TopicPartition], *, include_headers: bool) -> None:
        """Takes the partition of each range, by the range's number."""
        self._partitions = partitions
        self._schema = arrow_schema(include_headers=include_headers)
        self._repeated: TopicPartition | None = None
        self._rows = 0
        self._topics: pa.Array[Any] = pa.nulls(0, pa.string())
        self._indexes: pa.Array[Any] = pa.nulls(0, pa.int32())

    def batch(self, columns: RecordColumns) -> pa.RecordBatch:
        """Returns the table as a record batch for Spark."""
        places = [(self._partitions[number], rows) for number, rows in columns.ranges]
        topics, indexes = self._of_one(*places[0]) if len(places) == 1 else _of_several(places)
        arrays = [
            columns.keys,
            columns.values,
            topics,
            indexes,
            columns.offsets,
            columns.timestamps,
            columns.timestamp_types,
        ]
        if columns.headers is not None:
            arrays.append(columns.headers)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _of_one(self, partition: TopicPartition, rows: int) -> _Places:
        if self._repeated != partition:
            self._repeated, self._rows = partition, 0
        if self._rows < rows:
            # Built once, then shared by slices; twice the size after the first time, so that it is seldom built again.
            self._rows = 2 * rows if self._rows else rows
            self._topics = _repeated_text(partition.topic, self._rows)
            self._indexes = _numbers(array("i", [partition.partition]) * self._rows)
        return self._topics.slice(0, rows), self._indexes.slice(0, rows)


def _of_several(places: Sequence[tuple[TopicPartition, int]]) -> _Places:
    numbers = array("i")
    for partition, rows in places:
        numbers.extend(array("i", [partition.partition]) * rows)
    by_topic = groupby(((partition.topic, rows) for partition, rows in places), itemgetter(0))
    texts = [_repeated_text(topic, sum(rows for _, rows in of_topic)) for topic, of_topic in by_topic]
    return texts[0] if len(texts) == 1 else pa.concat_arrays(texts), _numbers(numbers)


def _repeated_text(text: str, rows: int) -> pa.Array[Any]:
    encoded = text.encode()
    bounds = array("i", range(0, (rows + 1) * len(encoded), len(encoded)))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(bounds), pa.py_buffer(encoded * rows)], 0)


def _numbers(numbers: array[int]) -> pa.Array[Any]:
    return pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)], 0)

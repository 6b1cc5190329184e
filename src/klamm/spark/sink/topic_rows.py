"""Divides the tables that Spark hands to a task by topic, and gives their columns the types of records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from klamm.spark.sink.errors import RowRefused
from klamm.spark.sink.sink_columns import SinkColumns

__all__ = ["TopicRows", "divide_by_topic"]

_BINARY = pa.binary()
_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


class TopicRows(NamedTuple):
    """Rows for one topic, in their order in the table; None stands for a column that the DataFrame does not have."""

    topic: str
    values: pa.BinaryArray
    keys: pa.BinaryArray | None
    headers: pa.ListArray | None
    partitions: pa.Int32Array | None


def divide_by_topic(table: pa.RecordBatch, columns: SinkColumns, topic: str | None) -> Iterator[TopicRows]:
    """Yields the rows of each topic; `topic` is the option. Rows of one topic keep their order.

    Raises `RowRefused` for a null topic, and for a null header or a header without a key.
    """
    if not table.num_rows:
        return
    if topic is not None:
        yield _rows(table, columns, topic)
        return
    assert columns.topic is not None
    topics = table.column(columns.topic)
    if topics.null_count:
        raise RowRefused(
            "The data sent to the topics contains a null topic. Use the `topic` option for setting a default topic."
        )
    encoded = topics.dictionary_encode()
    names: list[str] = encoded.dictionary.to_pylist()
    if len(names) == 1:
        yield _rows(table, columns, names[0])
        return
    numbers = encoded.indices.to_numpy()
    sorted_table = table.take(pa.array(np.argsort(numbers, kind="stable")))
    start = 0
    for name, count in zip(names, np.bincount(numbers, minlength=len(names)).tolist(), strict=True):
        yield _rows(sorted_table.slice(start, count), columns, name)
        start += count


def _rows(table: pa.RecordBatch, columns: SinkColumns, topic: str) -> TopicRows:
    return TopicRows(
        topic=topic,
        values=_column(table, columns.value, _BINARY),
        keys=_column(table, columns.key, _BINARY),
        headers=_headers(_column(table, columns.headers, _HEADERS)),
        partitions=_column(table, columns.partition, pa.int32()),
    )


def _column(table: pa.RecordBatch, position: int | None, kind: pa.DataType) -> pa.Array | None:
    """Returns a column in the given type: text as its UTF-8 bytes, without a copy, and large offsets as small ones."""
    if position is None:
        return None
    column = table.column(position)
    return column if column.type == kind else column.cast(kind)


def _headers(headers: pa.ListArray | None) -> pa.ListArray | None:
    """Returns the headers, or None if no row has any. Raises `RowRefused` for a header that Kafka does not allow."""
    if headers is None or headers.null_count == len(headers):
        return None
    each = headers.flatten()
    if each.null_count:
        raise RowRefused("The data contains a null header. Leave the header out, or give it a key.")
    if each.field(0).null_count:
        raise RowRefused("The data contains a header without a key. Kafka requires a key; the value may be null.")
    return headers

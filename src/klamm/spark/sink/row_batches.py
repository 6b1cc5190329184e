"""Builds finished record batches from rows, without an object for each row."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from klamm.client.producer.errors import RecordTooLarge
from klamm.protocol.batch_building import BatchBuilder, BuiltBatch, BytesColumn, HeadersColumn
from klamm.protocol.batch_building import RecordTooLarge as RowTooLarge
from klamm.protocol.types import Millis
from klamm.spark.sink.arrow_compression import compress_fast
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.sink.topic_rows import TopicRows

__all__ = ["RowBatches"]

_MANY_PARTITIONS: Final = 1 << 20


class RowBatches:
    """Builds the batches of one task.

    A row with a key gets the partition of its key. Rows without a key go to one partition until it has about
    `batch.size` bytes, as in Java's producer (KIP-480), so that batches become full; each task begins with a random
    partition.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._producer = options.producer
        self._ignores_keys = options.ignores_keys
        self._keyless_bytes: dict[str, int] = {}

    def build(self, rows: TopicRows, partition_count: int) -> Iterator[BuiltBatch]:
        """Yields the batches of rows of one topic, partition by partition. All records have the present time.

        The partitions that rows name exist. Raises `RecordTooLarge`.
        """
        config = self._producer
        builder = BatchBuilder(
            len(rows.values),
            _bytes_column(rows.values),
            keys=None if rows.keys is None else _bytes_column(rows.keys),
            headers=None if rows.headers is None else _headers_column(rows.headers),
            timestamp_ms=Millis(time.time_ns() // 1_000_000),
        )
        places = _named_places(rows)
        left = len(places)
        if not self._ignores_keys:
            left = builder.place(places.data, partition_count, by_crc32=config.partitioner == "consistent_random")
        if left:
            self._place_keyless(rows, places, partition_count)
        try:
            yield from builder.batches(
                places.data,
                partition_count,
                # A batch may not be larger than a request, with one record or with many.
                batch_size_bytes=min(config.batch_size_bytes, config.max_request_size_bytes),
                largest_bytes=config.max_request_size_bytes,
                compression=config.compression,
                compression_level=config.compression_level,
                compressor=compress_fast,
            )
        except RowTooLarge as error:
            raise RecordTooLarge(
                f"a record for topic {rows.topic} has {error.size_bytes} bytes in a batch, more than "
                f"max.request.size={config.max_request_size_bytes}"
            ) from error

    def _place_keyless(self, rows: TopicRows, places: npt.NDArray[np.int32], partition_count: int) -> None:
        without = np.flatnonzero(places < 0)
        sizes = _lengths(rows.values)[without]
        if rows.keys is not None:
            sizes = sizes + _lengths(rows.keys)[without]
        batch_bytes = self._producer.batch_size_bytes or 1
        before = self._keyless_bytes.get(rows.topic)
        if before is None:
            before = random.randrange(_MANY_PARTITIONS) * batch_bytes
        ends = before + np.cumsum(sizes)
        places[without] = (ends - sizes) // batch_bytes % partition_count
        if len(ends):
            self._keyless_bytes[rows.topic] = int(ends[-1])


def _named_places(rows: TopicRows) -> npt.NDArray[np.int32]:
    """Returns the partition that each row names, -1 for none."""
    if rows.partitions is None:
        return np.full(len(rows.values), -1, np.int32)
    return np.array(rows.partitions.fill_null(-1).to_numpy(zero_copy_only=False), np.int32)


def _lengths(column: pa.BinaryArray) -> npt.NDArray[np.int64]:
    bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    return np.diff(bounds).astype(np.int64)


def _bytes_column(column: pa.BinaryArray) -> BytesColumn:
    valid, bounds, data = column.buffers()
    return bounds, data if data is not None else b"", valid, column.offset


def _headers_column(column: pa.ListArray) -> HeadersColumn:
    valid, bounds = column.buffers()[:2]
    headers = column.values
    return bounds, valid, column.offset, _bytes_column(headers.field(0)), _bytes_column(headers.field(1))

"""Sends rows as records, and watches their deliveries."""

from __future__ import annotations

import random
import time
from typing import Final

import pyarrow.compute as pc

from klamm.client.producer.outcome import Delivery
from klamm.client.producer.partitioner import StickyPartitioner
from klamm.protocol.types import Millis
from klamm.spark.sink.errors import RowRefused
from klamm.spark.sink.shared_producers import BorrowedProducer
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.sink.topic_rows import TopicRows

__all__ = ["RowSender"]

_MANY_PARTITIONS: Final = 1 << 20


class RowSender:
    """Sends the rows of one task."""

    def __init__(self, borrowed: BorrowedProducer, options: SinkOptions) -> None:
        self._borrowed = borrowed
        self._options = options
        self._deliveries: list[Delivery] = []
        self._keyless: dict[str, StickyPartitioner] = {}

    def send(self, rows: TopicRows) -> None:
        """Sends rows of one topic; waits only for the producer's memory.

        Raises `RowRefused` for a partition that the topic does not have, before any of the rows is sent, and the errors
        of the producer.
        """
        count = self._count_partitions(rows)
        producer, ignores_keys = self._borrowed.producer, self._options.ignores_keys
        values = rows.values.to_pylist()
        nothing = [None] * len(values)
        keys = nothing if rows.keys is None else rows.keys.to_pylist()
        partitions = nothing if rows.partitions is None else rows.partitions.to_pylist()
        headers = nothing if rows.headers is None else rows.headers.to_pylist()
        now = Millis(time.time_ns() // 1_000_000)
        for value, key, partition, pairs in zip(values, keys, partitions, headers, strict=True):
            place = partition
            if partition is None and ignores_keys:
                place = self._partition_without_key(rows.topic, len(value or b"") + len(key or b""), count)
            named = () if pairs is None else tuple((pair["key"], pair["value"]) for pair in pairs)
            self._deliveries.append(
                producer.send(rows.topic, value, key, partition=place, headers=named, timestamp_ms=now)
            )
        self._check()

    def finish(self) -> None:
        """Waits until all records are acknowledged. Raises the error of the first one that failed."""
        self._borrowed.producer.flush()
        self._check()

    def _count_partitions(self, rows: TopicRows) -> int:
        """Returns the number of the topic's partitions. Raises `RowRefused` if a row names another partition."""
        count = self._borrowed.producer.partitions_of(rows.topic)
        if rows.partitions is None:
            return count
        limits = pc.min_max(rows.partitions).as_py()
        smallest, largest = limits["min"], limits["max"]
        if smallest is None:  # no row names a partition
            return count
        if largest >= count:
            # The topic may have grown since the producer asked for its partitions.
            self._borrowed.renew()
            count = self._borrowed.producer.partitions_of(rows.topic)
        for partition in (smallest, largest):
            if not 0 <= partition < count:
                raise RowRefused(
                    f"a row names partition {partition} of the topic {rows.topic!r}, whose partitions are 0 to "
                    f"{count - 1}"
                )
        return count

    def _check(self) -> None:
        left = []
        for delivery in self._deliveries:
            if not delivery.is_done:
                left.append(delivery)
            elif delivery.error is not None:
                raise delivery.error
        self._deliveries = left

    def _partition_without_key(self, topic: str, size_bytes: int, count: int) -> int:
        partitioner = self._keyless.get(topic)
        if partitioner is None:
            producer = self._options.producer
            partitioner = self._keyless[topic] = StickyPartitioner(
                producer.partitioner, producer.batch_size_bytes, random.randrange(_MANY_PARTITIONS)
            )
        return partitioner.partition(None, size_bytes, count)

"""Sends rows as finished record batches, and watches their deliveries."""

from __future__ import annotations

import pyarrow.compute as pc

from klamm.client.producer.outcome import Delivery
from klamm.spark.sink.errors import RowRefused
from klamm.spark.sink.row_batches import RowBatches
from klamm.spark.sink.shared_producers import BorrowedProducer
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.sink.topic_rows import TopicRows

__all__ = ["RowSender"]


class RowSender:
    """Sends the rows of one task."""

    def __init__(self, borrowed: BorrowedProducer, options: SinkOptions) -> None:
        self._borrowed = borrowed
        self._batches = RowBatches(options)
        self._deliveries: list[Delivery] = []

    def send(self, rows: TopicRows) -> None:
        """Sends rows of one topic; waits only for the producer's memory.

        Raises `RowRefused` for a partition that the topic does not have, before any of the rows is sent, and the errors
        of the producer.
        """
        count = self._count_partitions(rows)
        producer = self._borrowed.producer
        for batch in self._batches.build(rows, count):
            self._deliveries.append(producer.send_batch(rows.topic, batch.partition, batch.data))
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

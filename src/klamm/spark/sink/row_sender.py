"""Sends rows as finished record batches, and watches their deliveries."""

from __future__ import annotations

from klamm.spark.sink.partition_counts import count_partitions
from klamm.spark.sink.row_batches import RowBatches
from klamm.spark.sink.shared_producers import BorrowedProducer
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.sink.topic_rows import TopicRows
from klamm.spark.sink.watched_deliveries import WatchedDeliveries

__all__ = ["RowSender"]


class RowSender:
    """Sends the rows of one task."""

    def __init__(self, borrowed: BorrowedProducer, options: SinkOptions) -> None:
        self._borrowed = borrowed
        self._batches = RowBatches(options)
        self._deliveries = WatchedDeliveries()

    def send(self, rows: TopicRows) -> None:
        """Sends rows of one topic; waits only for the producer's memory.

        Raises `RowRefused` for a partition that the topic does not have, before any of the rows is sent, and the errors
        of the producer.
        """
        count = count_partitions(self._borrowed, rows)
        producer = self._borrowed.producer
        for batch in self._batches.build(rows, count):
            self._deliveries.add(producer.send_batch(rows.topic, batch.partition, batch.data))
        self._deliveries.check()

    def finish(self) -> None:
        """Waits until all records are acknowledged. Raises the error of the first one that failed."""
        self._borrowed.producer.flush()
        self._deliveries.check()

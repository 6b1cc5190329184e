"""Counts the partitions of a topic, and checks the partitions that rows name."""

from __future__ import annotations

import pyarrow.compute as pc

from klamm.spark.sink.errors import RowRefused
from klamm.spark.sink.shared_producers import BorrowedProducer
from klamm.spark.sink.topic_rows import TopicRows

__all__ = ["count_partitions"]


def count_partitions(borrowed: BorrowedProducer, rows: TopicRows) -> int:
    """Returns the number of partitions of the rows' topic.

    Raises `RowRefused` if a row names a partition that the topic does not have, and the errors of the producer.
    """
    count = borrowed.producer.partitions_of(rows.topic)
    if rows.partitions is None:
        return count
    limits = pc.min_max(rows.partitions).as_py()
    smallest, largest = limits["min"], limits["max"]
    if smallest is None:  # no row names a partition
        return count
    if largest >= count:
        count = borrowed.producer.partitions_of(rows.topic, at_least=largest + 1)
    for partition in (smallest, largest):
        if not 0 <= partition < count:
            raise RowRefused(
                f"a row names partition {partition} of the topic {rows.topic!r}, whose partitions are 0 to {count - 1}"
            )
    return count

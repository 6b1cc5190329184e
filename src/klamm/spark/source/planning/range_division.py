"""Divides the offset ranges of a read among tasks: `minPartitions` and `maxRecordsPerPartition`. No I/O.

The rules of the division are those of `KafkaOffsetRangeCalculator` in Spark, including the rounding. Only klamm lets
small ranges of a micro-batch share a task.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from klamm.protocol.types import Offset
from klamm.spark.source.offsets import OffsetRange
from klamm.spark.source.options.read_limits import Division

__all__ = ["divide", "share_tasks"]

# Reading this many small records takes less time than an additional Spark task, 10 to 20 ms. With half this limit, a
# micro-batch of 23,000 records, 4,000 of each of six partitions, had six tasks instead of three and took 50% longer.
_SMALL: Final = 10_000


def divide(ranges: Sequence[OffsetRange], division: Division) -> list[OffsetRange]:
    """Divides the ranges into about as many as the options request; leaves out empty ranges."""
    divided = [one for one in ranges if one.end > one.start]
    if division.max_records is not None:
        most = division.max_records
        divided = [piece for one in divided for piece in _pieces(one, math.ceil((one.end - one.start) / most))]
    if division.min_partitions is not None and len(divided) < division.min_partitions:
        divided = _at_least(division.min_partitions, divided)
    return divided


def share_tasks(ranges: Sequence[OffsetRange], division: Division) -> list[tuple[OffsetRange, ...]]:
    """Groups the ranges into tasks, in order: ranges share a task as long as they have few records together.

    With `minPartitions`, each range has a task of its own.
    """
    most = 0 if division.min_partitions is not None else min(_SMALL, division.max_records or _SMALL)
    tasks: list[tuple[OffsetRange, ...]] = []
    room = 0
    for one in ranges:
        if _size(one) <= room:
            tasks[-1] = (*tasks[-1], one)
            room -= _size(one)
        else:
            tasks.append((one,))
            room = most - _size(one)
    return tasks


def _at_least(count: int, ranges: list[OffsetRange]) -> list[OffsetRange]:
    """Divides the large ranges among the remaining tasks by their sizes; small ranges stay whole."""
    total = sum(map(_size, ranges))
    whole = [one for one in ranges if _share(_size(one), total, count) == 1]
    partitions_left_whole = {one.topic_partition for one in whole}
    rest = total - sum(map(_size, whole))
    tasks = max(count - len(whole), 1)
    return [
        piece
        for one in ranges
        for piece in _pieces(
            one, 1 if one.topic_partition in partitions_left_whole else _share(_size(one), rest, tasks)
        )
    ]


def _size(one: OffsetRange) -> int:
    return one.end - one.start


def _share(size: int, total: int, count: int) -> int:
    # Like Java's Math.round: halves are rounded up.
    return max(math.floor(size / total * count + 0.5), 1)


def _pieces(one: OffsetRange, count: int) -> Iterator[OffsetRange]:
    """Yields `count` pieces of the range of nearly the same size, without empty ones."""
    start, remaining = one.start, _size(one)
    for index in range(count):
        size = remaining // (count - index)
        remaining -= size
        if size:
            yield one._replace(start=start, end=Offset(start + size))
        start = Offset(start + size)

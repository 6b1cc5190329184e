"""Tests the division of ranges among tasks; the examples come from Spark's own tests and rules."""

from __future__ import annotations

import random

import pytest

from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.offsets import OffsetRange
from klamm.spark.source.options.read_limits import Division
from klamm.spark.source.planning.range_division import divide, share_tasks


def ranges(*bounds: tuple[int, int, int]) -> list[OffsetRange]:
    return [
        OffsetRange(TopicPartition("t", PartitionIndex(partition)), Offset(start), Offset(end))
        for partition, start, end in bounds
    ]


@pytest.mark.parametrize(
    ("minimum", "maximum", "given", "divided"),
    [
        (None, None, [(0, 1, 1), (1, 1, 9)], [(1, 1, 9)]),
        (3, None, [(0, 1, 2), (1, 1, 2), (2, 5, 6)], [(0, 1, 2), (1, 1, 2), (2, 5, 6)]),
        (4, None, [(0, 0, 5)], [(0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 3, 5)]),
        (2, None, [(0, 0, 3)], [(0, 0, 1), (0, 1, 3)]),
        (5, None, [(0, 0, 3)], [(0, 0, 1), (0, 1, 2), (0, 2, 3)]),
        # The small partition stays whole, and the large ones share the remaining tasks.
        (3, None, [(0, 0, 1), (1, 0, 100)], [(0, 0, 1), (1, 0, 50), (1, 50, 100)]),
        (None, 4, [(0, 0, 9), (1, 5, 8)], [(0, 0, 3), (0, 3, 6), (0, 6, 9), (1, 5, 8)]),
        # Pieces of equal size count as small, so the number of tasks is approximate.
        (4, 4, [(0, 0, 9)], [(0, 0, 3), (0, 3, 6), (0, 6, 9)]),
        (6, 4, [(0, 0, 9)], [(0, 0, 1), (0, 1, 3), (0, 3, 4), (0, 4, 6), (0, 6, 7), (0, 7, 9)]),
    ],
)
def test_ranges_are_divided_as_by_spark(
    minimum: int | None, maximum: int | None, given: list[tuple[int, int, int]], divided: list[tuple[int, int, int]]
) -> None:
    """Ranges are divided as in Spark, including rounding: the last piece takes the remainder."""
    assert divide(ranges(*given), Division(minimum, maximum)) == ranges(*divided)


def test_nothing_is_lost_or_read_twice() -> None:
    """For all sizes, the pieces of a partition follow each other from its start to its end."""
    generator = random.Random(7)
    for _ in range(300):
        given = ranges(
            *(
                (partition, start, start + generator.choice([1, 2, 10, 1_000, 10**12]))
                for partition, start in enumerate(generator.choices(range(100), k=generator.randint(1, 6)))
            )
        )
        division = Division(
            generator.choice([None, generator.randint(1, 40)]), generator.choice([None, 3 * 10**10, 10**11])
        )
        pieces = divide(given, division)
        for whole in given:
            position = whole.start
            for piece in pieces:
                if piece.topic_partition == whole.topic_partition:
                    assert piece.start == position < piece.end
                    position = piece.end
            assert position == whole.end


@pytest.mark.parametrize(
    ("minimum", "maximum", "sizes", "tasks"),
    [
        (None, None, [], []),
        (None, None, [10, 20, 30], [[10, 20, 30]]),
        (None, None, [6_000, 4_000, 1], [[6_000, 4_000], [1]]),
        (None, None, [19_000, 1, 1, 19_000, 1], [[19_000], [1, 1], [19_000], [1]]),
        # The options set the number of tasks, or the records of one task.
        (3, None, [10, 20, 30], [[10], [20], [30]]),
        (None, 25, [10, 20, 5, 25], [[10], [20, 5], [25]]),
    ],
)
def test_small_ranges_share_a_task(
    minimum: int | None, maximum: int | None, sizes: list[int], tasks: list[list[int]]
) -> None:
    """Small ranges share a task in order, and no range is divided."""
    given = ranges(*((index, 100, 100 + size) for index, size in enumerate(sizes)))
    shared = share_tasks(given, Division(minimum, maximum))
    assert [[one.end - one.start for one in task] for task in shared] == tasks
    assert [one for task in shared for one in task] == given

"""Dividing ranges among tasks: the examples are those of Spark's own tests, worked out by its rules."""

from __future__ import annotations

import random

import pytest

from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.offset_range import OffsetRange
from klamm.spark.source.range_division import divide
from klamm.spark.source.read_limits import Division


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
        # The small partition stays whole, the large ones share the rest.
        (3, None, [(0, 0, 1), (1, 0, 100)], [(0, 0, 1), (1, 0, 50), (1, 50, 100)]),
        (None, 4, [(0, 0, 9), (1, 5, 8)], [(0, 0, 3), (0, 3, 6), (0, 6, 9), (1, 5, 8)]),
        # Pieces of the same size count as small; the number of tasks is approximate.
        (4, 4, [(0, 0, 9)], [(0, 0, 3), (0, 3, 6), (0, 6, 9)]),
        (6, 4, [(0, 0, 9)], [(0, 0, 1), (0, 1, 3), (0, 3, 4), (0, 4, 6), (0, 6, 7), (0, 7, 9)]),
    ],
)
def test_ranges_are_divided_as_by_spark(
    minimum: int | None, maximum: int | None, given: list[tuple[int, int, int]], divided: list[tuple[int, int, int]]
) -> None:
    """Roundings included: the last piece takes what is left over."""
    assert divide(ranges(*given), Division(minimum, maximum)) == ranges(*divided)


def test_nothing_is_lost_or_read_twice() -> None:
    """Whatever the sizes: the pieces of a partition follow each other from its start to its end."""
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

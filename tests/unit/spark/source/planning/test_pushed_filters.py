"""Tests which filters the log can apply; a pushed filter never removes a record that passes the filter."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from collections.abc import Mapping
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from klamm.protocol.types import Millis, Offset, PartitionIndex, TopicPartition
from klamm.spark.source.offsets import OffsetRange, PartitionOffsets
from klamm.spark.source.planning.pushed_filters import Restriction

Row = tuple[TopicPartition, int, int]
"""A record: its partition, its offset, its time in milliseconds."""


def tp(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(topic, PartitionIndex(partition))


def whole(topic: str, partition: int, end: int = 10) -> OffsetRange:
    return OffsetRange(tp(topic, partition), Offset(0), Offset(end))


def no_times(timestamps_ms: Mapping[TopicPartition, Millis]) -> PartitionOffsets:
    raise AssertionError("no time was filtered")


def utc(milliseconds: float) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize(
    ("one", "left"),
    [
        (EqualTo(("topic",), "a"), [("a", 0), ("a", 1)]),
        (EqualNullSafe(("topic",), "b"), [("b", 0)]),
        (In(("topic",), ("b", "c")), [("b", 0)]),
        (Not(EqualTo(("topic",), "a")), [("b", 0)]),
        (StringStartsWith(("topic",), "a"), [("a", 0), ("a", 1)]),
        (StringEndsWith(("topic",), "b"), [("b", 0)]),
        (Not(StringContains(("topic",), "b")), [("a", 0), ("a", 1)]),
        (EqualTo(("partition",), 1), [("a", 1)]),
        (LessThan(("partition",), 1), [("a", 0), ("b", 0)]),
        (GreaterThanOrEqual(("partition",), 1), [("a", 1)]),
        (Not(In(("partition",), (0, 5))), [("a", 1)]),
        (IsNotNull(("topic",)), [("a", 0), ("a", 1), ("b", 0)]),
    ],
)
def test_topics_and_partitions_are_chosen(one: Filter, left: list[tuple[str, int]]) -> None:
    """Filters on topics and partitions are applied exactly, so Spark needs no second check; a pickled copy does the
    same."""
    restriction = Restriction()
    assert list(restriction.add([one])) == []

    copy: Restriction = pickle.loads(pickle.dumps(restriction))

    ranges = [whole("a", 0), whole("a", 1), whole("b", 0)]
    assert [place.topic_partition for place in copy.apply(ranges, no_times, {})] == [tp(*place) for place in left]


@pytest.mark.parametrize(
    ("filters", "start", "end", "claimed"),
    [
        ([GreaterThan(("offset",), 3)], 4, 10, True),
        ([GreaterThanOrEqual(("offset",), 3), LessThanOrEqual(("offset",), 5)], 3, 6, True),
        ([LessThan(("offset",), 5)], 0, 5, True),
        ([EqualTo(("offset",), 5)], 5, 6, True),
        ([In(("offset",), (7, 2, 4))], 2, 8, False),
    ],
)
def test_offsets_are_cut(filters: list[Filter], start: int, end: int, claimed: bool) -> None:
    """Bounds on offsets are applied exactly; a list of offsets only narrows the range."""
    restriction = Restriction()

    assert list(restriction.add(filters)) == ([] if claimed else filters)
    assert restriction.apply([whole("a", 0)], no_times, {}) == [OffsetRange(tp("a", 0), Offset(start), Offset(end))]
    assert restriction.apply([whole("a", 0, end=start)], no_times, {}) == []


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("value",), b"x"),
        IsNull(("key",)),
        IsNotNull(("key",)),
        Not(EqualTo(("offset",), 3)),
        EqualTo(("topic",), None),
        Not(In(("topic",), ("a", None))),
        GreaterThan(("topic",), "a"),
        LessThan(("timestamp",), utc(5)),
        Not(GreaterThan(("timestamp",), utc(5))),
        GreaterThan(("timestamp",), dt.datetime(2020, 1, 1)),  # a time without a zone
        GreaterThan(("timestamp",), utc(-5)),
        EqualTo(("headers", "key"), "a"),
    ],
)
def test_the_rest_is_left_to_spark(one: Filter) -> None:
    """Any other filter is left to Spark, and the whole range is read."""
    restriction = Restriction()

    assert list(restriction.add([one])) == [one]
    assert restriction.apply([whole("a", 0)], no_times, {}) == [whole("a", 0)]


@pytest.mark.parametrize(
    ("one", "first_ms"),
    [
        (GreaterThanOrEqual(("timestamp",), utc(5)), 5),
        (GreaterThanOrEqual(("timestamp",), utc(5.001)), 6),
        (GreaterThan(("timestamp",), utc(5)), 6),
        (GreaterThan(("timestamp",), utc(5.999)), 6),
        (EqualTo(("timestamp",), utc(5)), 5),
        (In(("timestamp",), (utc(9), utc(7))), 7),
    ],
)
def test_a_lower_bound_of_the_time_moves_the_start(one: Filter, first_ms: int) -> None:
    """A lower bound on the time moves the start; Spark still checks each record, because later records may be older."""
    asked: list[Mapping[TopicPartition, Millis]] = []

    def at(timestamps_ms: Mapping[TopicPartition, Millis]) -> PartitionOffsets:
        asked.append(timestamps_ms)
        return {tp("a", 0): Offset(4), tp("a", 1): Offset(-1)}

    restriction = Restriction()
    assert list(restriction.add([one])) == [one]

    ends = {tp("a", 0): Offset(10), tp("a", 1): Offset(10)}
    left = restriction.apply([whole("a", 0), whole("a", 1), whole("gone", 0)], at, ends)

    assert left == [OffsetRange(tp("a", 0), Offset(4), Offset(10)), whole("gone", 0)]
    assert asked == [dict.fromkeys((tp("a", 0), tp("a", 1), tp("gone", 0)), first_ms)]


def test_offsets_beyond_the_log_have_no_known_time() -> None:
    """A range may end beyond the log, or within an open transaction. If no visible record has the time, the range is
    read from the end of the log: the records that arrive there may have the time, or they are a loss."""
    restriction = Restriction()
    list(restriction.add([GreaterThan(("timestamp",), utc(5))]))
    place = tp("a", 0)

    def at(timestamps_ms: Mapping[TopicPartition, Millis]) -> PartitionOffsets:
        return {place: Offset(-1)}

    for start, end, left in ((0, 10, (7, 10)), (8, 10, (8, 10)), (0, 7, None), (0, 5, None)):
        ranges = restriction.apply([OffsetRange(place, Offset(start), Offset(end))], at, {place: Offset(7)})
        assert [(one.start, one.end) for one in ranges] == ([] if left is None else [left])


def test_nothing_that_passes_is_left_out() -> None:
    """For any filters and for times out of order, the pushed filters and Spark's filters together give the right
    rows."""
    generator = random.Random(11)
    places = [tp("a", 0), tp("a", 1), tp("ab", 0)]
    rows: list[Row] = [(place, offset, generator.randint(0, 20)) for place in places for offset in range(12)]
    log: dict[TopicPartition, list[int]] = {place: [row[2] for row in rows if row[0] == place] for place in places}

    def at(timestamps_ms: Mapping[TopicPartition, Millis]) -> PartitionOffsets:
        return {
            place: Offset(next((offset for offset, ms in enumerate(log[place]) if ms >= wanted), -1))
            for place, wanted in timestamps_ms.items()
        }

    for _ in range(2_000):
        filters = [_any_filter(generator) for _ in range(generator.randint(1, 4))]
        restriction = Restriction()
        left_to_spark = list(restriction.add(filters))
        wanted = [OffsetRange(place, Offset(0), Offset(12)) for place in places]
        ranges = restriction.apply(wanted, at, dict.fromkeys(places, Offset(12)))
        read = [
            row
            for row in rows
            if any(one.topic_partition == row[0] and one.start <= row[1] < one.end for one in ranges)
        ]

        assert [row for row in read if _passes(row, left_to_spark)] == [row for row in rows if _passes(row, filters)]


_ORDERED: dict[type[Filter], Any] = {
    EqualTo: lambda found, value: found == value,
    GreaterThan: lambda found, value: found > value,
    GreaterThanOrEqual: lambda found, value: found >= value,
    LessThan: lambda found, value: found < value,
    LessThanOrEqual: lambda found, value: found <= value,
    In: lambda found, value: found in value,
}


def _any_filter(generator: random.Random) -> Filter:
    kind: Any = generator.choice([*_ORDERED])
    choices: list[tuple[str, list[Any]]] = [
        ("topic", ["a", "ab", "b"]),
        ("partition", [0, 1, 2]),
        ("offset", list(range(-1, 14))),
        ("timestamp", [utc(generator.randint(0, 21_000) / 1000) for _ in range(9)]),
    ]
    column, values = generator.choice(choices)
    value = tuple(generator.choices(values, k=2)) if kind is In else generator.choice(values)
    one: Filter = kind((column,), value)
    return Not(one) if generator.random() < 0.2 else one


def _passes(row: Row, filters: list[Filter]) -> bool:
    place, offset, ms = row
    found = {"topic": place.topic, "partition": place.partition, "offset": offset, "timestamp": utc(ms)}
    for one in filters:
        inner: Any = one.child if isinstance(one, Not) else one
        if _ORDERED[type(inner)](found[inner.attribute[0]], inner.value) is isinstance(one, Not):
            return False
    return True

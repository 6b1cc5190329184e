"""Filters of a batch read that the log can apply: on topic, partition, offset, and the time of a record.

A filter is taken over only if the read then returns exactly the records that pass it; Spark applies all other filters
itself. Filters on topic and partition are taken over, and bounds of the offset. A lower bound of the time moves the
start of a partition to the first record at that time or later, which the broker finds through its index. Later records
may be older, so Spark still checks each record. An upper bound of the time has no effect on the ranges: a matching
record may follow any record that is too new.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from klamm.protocol.types import Millis, Offset, TopicPartition
from klamm.spark.source.offsets import OffsetRange, PartitionOffsets

__all__ = ["Restriction"]

_NEVER_NULL: Final = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)

OffsetsAt = Callable[[Mapping[TopicPartition, Millis]], PartitionOffsets]
"""Returns the first offset of each partition at a time or later, -1 if there is none: `LogOffsets.at`."""


def _is_in(value: Any, values: tuple[Any, ...]) -> bool:
    return value in values


_TESTS: Final[Mapping[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    In: _is_in,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}
_ORDER: Final[Mapping[type[Filter], Callable[[Any, Any], bool]]] = {
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}


class _Condition(NamedTuple):
    """A condition on the topic or the partition."""

    is_of_topic: bool
    test: Callable[[Any, Any], bool]
    value: Any
    negated: bool

    def holds(self, topic: str, partition: int | None) -> bool:
        """Returns whether the condition holds. A condition on partitions holds for a topic without a partition."""
        if partition is None and not self.is_of_topic:
            return True
        found = topic if self.is_of_topic else partition
        return self.test(found, self.value) is not self.negated


class Restriction:
    """The filters of a read that the log can apply."""

    def __init__(self) -> None:
        self._conditions: list[_Condition] = []
        self._first_offset = Offset(0)
        self._end_offset: Offset | None = None
        self._from_ms: Millis | None = None

    def add(self, filters: Iterable[Filter]) -> Iterator[Filter]:
        """Adds filters that must all hold; yields those that Spark must still apply."""
        for one in filters:
            if not self._takes(one):
                yield one

    def leaves_out(self, topic: str, partition: int | None, start: int) -> bool:
        """Returns whether the filters exclude a topic, or one of its partitions, from an offset on."""
        if not all(condition.holds(topic, partition) for condition in self._conditions):
            return True
        return self._end_offset is not None and self._end_offset <= max(start, self._first_offset)

    def apply(
        self, ranges: Sequence[OffsetRange], offsets_at: OffsetsAt, ends: Mapping[TopicPartition, Offset]
    ) -> list[OffsetRange]:
        """Returns the ranges reduced by the filters. Requests offsets by time at most once.

        `ends` are the ends of the log before that request. What a range has beyond its log's end is kept: no broker
        knows the times of records that are not there yet.
        """
        left = []
        for one in ranges:
            if not self.leaves_out(*one.topic_partition, one.start):
                start = max(one.start, self._first_offset)
                end = one.end if self._end_offset is None else min(one.end, self._end_offset)
                if start < end:
                    left.append(one._replace(start=start, end=end))
        if self._from_ms is None or not left:
            return left
        found = offsets_at({one.topic_partition: self._from_ms for one in left})
        return [later for one in left if (later := _from(one, found, ends)).start < later.end]

    def _takes(self, one: Filter) -> bool:
        """Adds a filter as far as possible. Returns whether Spark need not apply it any more."""
        negated = isinstance(one, Not)
        inner = one.child if isinstance(one, Not) else one
        path: tuple[str, ...] = getattr(inner, "attribute", ())
        column = path[0] if len(path) == 1 else None
        if isinstance(inner, IsNotNull):
            return column in _NEVER_NULL and not negated
        value = getattr(inner, "value", None)
        if value is None or (isinstance(value, tuple) and None in value):
            return False
        if column in ("topic", "partition"):
            return self._takes_place(inner, value, is_of_topic=column == "topic", negated=negated)
        if column == "offset" and not negated:
            return self._takes_offset(inner, value)
        if column == "timestamp" and not negated:
            self._takes_time(inner, value)
        return False

    def _takes_place(self, one: Filter, value: Any, *, is_of_topic: bool, negated: bool) -> bool:
        wanted = str if is_of_topic else int
        if not all(isinstance(each, wanted) for each in (value if isinstance(value, tuple) else (value,))):
            return False
        test = _TESTS.get(type(one)) or (None if is_of_topic else _ORDER.get(type(one)))
        if test is None:
            return False
        self._conditions.append(_Condition(is_of_topic, test, value, negated))
        return True

    def _takes_offset(self, one: Filter, value: Any) -> bool:
        values = value if isinstance(value, tuple) else (value,)
        if not values or not all(isinstance(each, int) for each in values):
            return False
        lowest, highest = min(values), max(values)
        if isinstance(one, EqualTo | EqualNullSafe | In):
            self._narrow(lowest, highest + 1)
        elif isinstance(one, GreaterThan | GreaterThanOrEqual):
            self._narrow(lowest + isinstance(one, GreaterThan), None)
        elif isinstance(one, LessThan | LessThanOrEqual):
            self._narrow(0, highest + isinstance(one, LessThanOrEqual))
        else:
            return False
        return not isinstance(one, In)

    def _narrow(self, first: int, end: int | None) -> None:
        self._first_offset = max(self._first_offset, Offset(first))
        if end is not None:
            self._end_offset = Offset(end if self._end_offset is None else min(end, self._end_offset))

    def _takes_time(self, one: Filter, value: Any) -> None:
        values = value if isinstance(value, tuple) else (value,)
        if not values or not all(isinstance(each, dt.datetime) and each.tzinfo is not None for each in values):
            return
        microseconds = (min(values) - _EPOCH) // _MICROSECOND
        if isinstance(one, GreaterThan):
            first_ms = microseconds // 1000 + 1
        elif isinstance(one, GreaterThanOrEqual | EqualTo | EqualNullSafe | In):
            first_ms = -(-microseconds // 1000)
        else:
            return
        # Negative timestamps have special meanings for the broker. Every record with a timestamp passes a bound before
        # 1970.
        if first_ms >= 0:
            self._from_ms = Millis(first_ms if self._from_ms is None else max(first_ms, self._from_ms))


def _from(
    one: OffsetRange, found: Mapping[TopicPartition, Offset], ends: Mapping[TopicPartition, Offset]
) -> OffsetRange:
    offset = found.get(one.topic_partition)
    if offset is None:  # The partition is gone: the read reports it.
        return one
    if offset < 0:
        offset = min(ends.get(one.topic_partition, one.start), one.end)
    return one._replace(start=max(one.start, offset))

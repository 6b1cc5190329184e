"""Tests of partition sets that keep the order of their partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from klamm.core.group.assignors.partition_order import OrderedPartitions, in_order, ordered
from klamm.protocol.types import PartitionIndex


@given(st.lists(st.integers(0, 10_000).map(PartitionIndex), unique=True))
def test_the_order_survives(partitions: list[PartitionIndex]) -> None:
    """An ordered set gives back the order of its list, and equals every other set of the same partitions."""
    kept = ordered(partitions)
    assert list(in_order(kept)) == partitions
    assert kept == frozenset(partitions)
    assert hash(kept) == hash(frozenset(partitions))


def test_ascending_partitions_need_nothing_more() -> None:
    """Partitions in ascending order, the common case, are kept as a plain set."""
    assert not isinstance(ordered([PartitionIndex(1), PartitionIndex(5)]), OrderedPartitions)
    assert isinstance(ordered([PartitionIndex(5), PartitionIndex(1)]), OrderedPartitions)

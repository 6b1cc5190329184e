"""Sets of partitions that know their order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from klamm.core.group.assignors.partition_order import OrderedPartitions, in_order, ordered
from klamm.protocol.types import PartitionIndex


@given(st.lists(st.integers(0, 10_000).map(PartitionIndex), unique=True))
def test_the_order_survives(partitions: list[PartitionIndex]) -> None:
    """What was written down comes back as it was, and two sets with the same partitions are equal."""
    kept = ordered(partitions)
    assert list(in_order(kept)) == partitions
    assert kept == frozenset(partitions)
    assert hash(kept) == hash(frozenset(partitions))


def test_ascending_partitions_need_nothing_more() -> None:
    """The common case is a plain set."""
    assert not isinstance(ordered([PartitionIndex(1), PartitionIndex(5)]), OrderedPartitions)
    assert isinstance(ordered([PartitionIndex(5), PartitionIndex(1)]), OrderedPartitions)

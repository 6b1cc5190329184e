"""Sets of partitions that keep the order in which a record lists them.

If a member has too many partitions, Apache Kafka's `uniform` takes those that come last in a hash set. That depends on
the order in which the target assignment's record lists them. So the order is kept from the assignor's result to the
record, and from the record to the assignor's next input. Nothing else may depend on the order: two such sets with the
same partitions are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import lt

from klamm.protocol.types import PartitionIndex

__all__ = ["OrderedPartitions", "in_order", "ordered"]


class OrderedPartitions(frozenset[PartitionIndex]):
    """A set of partitions whose order is not ascending."""

    __slots__ = ("order",)

    order: tuple[PartitionIndex, ...]


def ordered(partitions: Sequence[PartitionIndex]) -> frozenset[PartitionIndex]:
    """Returns the set of these distinct partitions; the common case of ascending numbers is a plain frozenset."""
    if len(partitions) < 2 or all(map(lt, partitions, partitions[1:])):
        return frozenset(partitions)
    result = OrderedPartitions(partitions)
    result.order = tuple(partitions)
    return result


def in_order(partitions: frozenset[PartitionIndex]) -> Sequence[PartitionIndex]:
    """Returns the partitions in the order that was passed to `ordered`."""
    return partitions.order if isinstance(partitions, OrderedPartitions) else sorted(partitions)

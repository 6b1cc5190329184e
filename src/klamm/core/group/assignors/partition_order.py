"""Sets of partitions that know in which order they were written down.

Apache Kafka's `uniform` takes from a member with too many partitions those that come last in a hash set, and that
depends on the order in which the target assignment's record lists them. So the order is kept from the assignor's answer
to the record, and from the record to the assignor's next question. Nothing else may depend on it: two such sets with
the same partitions are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import lt

from klamm.protocol.types import PartitionIndex

__all__ = ["OrderedPartitions", "in_order", "ordered"]


class OrderedPartitions(frozenset[PartitionIndex]):
    """A set of partitions whose order is not the ascending one."""

    __slots__ = ("order",)

    order: tuple[PartitionIndex, ...]


def ordered(partitions: Sequence[PartitionIndex]) -> frozenset[PartitionIndex]:
    """The set of these partitions, which are all different; the common case of ascending numbers costs nothing."""
    if len(partitions) < 2 or all(map(lt, partitions, partitions[1:])):
        return frozenset(partitions)
    result = OrderedPartitions(partitions)
    result.order = tuple(partitions)
    return result


def in_order(partitions: frozenset[PartitionIndex]) -> Sequence[PartitionIndex]:
    """The partitions in the order that `ordered` was given."""
    return partitions.order if isinstance(partitions, OrderedPartitions) else sorted(partitions)

"""Tests the lag of a group in the broker's traffic figures."""

from __future__ import annotations

from klamm.core.group.partition_traffic import PartitionTraffic
from klamm.protocol.types import Offset


def test_the_lag_of_a_group_counts_from_where_it_can_read() -> None:
    """The lag counts from the committed offset, or from the log start if that is later; without a commit the lag is
    0."""
    partition = PartitionTraffic(Offset(40), Offset(100), 1.0)
    assert partition.lag_of(Offset(90)) == 10
    assert partition.lag_of(None) == 0
    assert partition.lag_of(Offset(3)) == 60
    assert partition.lag_of(Offset(120)) == 0

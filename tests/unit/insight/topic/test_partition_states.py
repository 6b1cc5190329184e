"""The state of a partition: which properties need attention."""

from __future__ import annotations

from klamm.insight.topic.partition_states import PartitionState
from klamm.insight.topic.topic_details import PartitionFilter


def _state(replicas: tuple[int, ...], isr: tuple[int, ...], leader: int | None = 1) -> PartitionState:
    return PartitionState(topic="orders", index=0, leader=leader, replicas=replicas, isr=isr)


def test_replicas_that_are_added_do_not_count_as_missing() -> None:
    """A reassignment makes no partition under-replicated, until an old replica is out of sync."""
    assert not _state((1, 2, 3), (1, 2, 3)).is_under_replicated()
    assert _state((1, 2, 3), (1, 2)).is_under_replicated()
    assert not _state((1, 2, 3), (1, 2)).is_under_replicated(adding=(3,))
    assert _state((1, 2, 3), (1,)).is_under_replicated(adding=(3,))
    assert _state((1, 2, 3), (1, 3)).is_under_replicated(adding=(3,))


def test_no_partition_needs_more_in_sync_replicas_than_it_has() -> None:
    """With one replica, `min.insync.replicas` of 2 means 1."""
    assert _state((1, 2, 3), (1,)).is_under_min_isr(2)
    assert not _state((1, 2, 3), (1, 2)).is_under_min_isr(2)
    assert not _state((1,), (1,)).is_under_min_isr(2)
    assert _state((1,), (), leader=None).is_under_min_isr(2)


def test_a_filter_chooses_partitions_with_any_of_its_properties() -> None:
    """Without a property it chooses all."""
    lagging, leaderless = _state((1, 2), (1,)), _state((1, 2), (1, 2), leader=None)
    assert PartitionFilter().chooses(_state((1,), (1,)), (), None)
    both = PartitionFilter(under_replicated=True, unavailable=True)
    assert both.chooses(lagging, (), None)
    assert both.chooses(leaderless, (), None)
    assert not PartitionFilter(unavailable=True).chooses(lagging, (), None)
    assert PartitionFilter(under_min_isr=True).chooses(lagging, (), 2)
    assert not PartitionFilter(under_min_isr=True).chooses(lagging, (), 1)

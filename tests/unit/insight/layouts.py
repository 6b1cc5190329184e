"""Layouts of replicas for tests of plans."""

from __future__ import annotations

from hypothesis import strategies

from klamm.insight.cluster.replica_layout import PartitionMove, ReplicaLayout

__all__ = ["check_moves", "layouts"]


@strategies.composite
def layouts(draw: strategies.DrawFn) -> ReplicaLayout:
    """Draws up to six brokers on up to three racks, some of them closed, and up to twelve partitions."""
    brokers = range(1, draw(strategies.integers(1, 6)) + 1)
    racks = {broker: draw(strategies.sampled_from([None, "a", "b", "c"])) for broker in brokers}
    closed = draw(strategies.sets(strategies.sampled_from(brokers), max_size=2))
    replicas, sizes = {}, {}
    for index in range(draw(strategies.integers(0, 12))):
        places = draw(strategies.lists(strategies.sampled_from(brokers), min_size=1, max_size=3, unique=True))
        replicas["t", index] = tuple(places)
        sizes["t", index] = draw(strategies.integers(0, 1000))
    return ReplicaLayout(replicas=replicas, sizes_bytes=sizes, racks=racks, closed=frozenset(closed))


def check_moves(layout: ReplicaLayout, moves: list[PartitionMove]) -> None:
    """Checks what every plan keeps: the number of replicas, one replica a broker, and no replica for closed brokers."""
    for move in moves:
        assert layout.replicas[move.key] == move.before != move.after
        assert len(move.after) == len(move.before) == len(set(move.after))
        assert set(move.adding) <= set(layout.targets)
        assert move.copied_bytes == layout.sizes_bytes[move.key] * len(move.removing)

from __future__ import annotations

from hypothesis import given
from tests.unit.insight.layouts import check_moves, layouts

from klamm.insight.cluster.balance_plan import plan_balance
from klamm.insight.cluster.replica_layout import ReplicaLayout


def badness(layout: ReplicaLayout) -> tuple[int, int, int, int]:
    """Returns missing racks, and the unevenness of replicas, bytes and leaders, in the order of their weight."""
    loads = [load for broker, load in layout.loads().items() if broker in layout.targets]
    return (
        -sum(map(layout.spread, layout.replicas.values())),
        sum(load.replicas**2 for load in loads),
        sum(load.size_bytes**2 for load in loads),
        sum(load.leaders**2 for load in loads),
    )


@given(layouts())
def test_a_plan_keeps_all_replicas_and_makes_the_cluster_more_even(layout: ReplicaLayout) -> None:
    """No replica is lost, no partition has fewer racks, closed brokers keep what they have, and a plan has a gain."""
    moves = plan_balance(layout)
    check_moves(layout, moves)
    for move in moves:
        assert layout.spread(move.after) >= layout.spread(move.before)
        assert set(move.removing) <= set(layout.targets)
    assert not moves or badness(layout.after(moves)) < badness(layout)


@given(layouts())
def test_a_plan_is_the_same_again_and_leaves_nothing_to_plan(layout: ReplicaLayout) -> None:
    """The order in which partitions and brokers are given does not matter. After the moves, the next plan is empty."""
    moves = plan_balance(layout)
    turned = ReplicaLayout(
        replicas=dict(reversed(list(layout.replicas.items()))),
        sizes_bytes=layout.sizes_bytes,
        racks=dict(reversed(list(layout.racks.items()))),
        closed=layout.closed,
    )
    assert plan_balance(turned) == moves
    assert [move for move in plan_balance(layout.after(moves)) if move.adding] == []


@given(layouts())
def test_leaders_are_reordered_only_for_a_gain(layout: ReplicaLayout) -> None:
    """With as many replicas as brokers, nothing is copied, and the numbers of leaders differ by one at most."""
    brokers = tuple(sorted(layout.racks))
    full = ReplicaLayout(
        replicas=dict.fromkeys(layout.replicas, brokers), sizes_bytes=layout.sizes_bytes, racks=layout.racks
    )
    moves = plan_balance(full)
    assert sum(move.copied_bytes for move in moves) == 0
    leaders = [load.leaders for load in full.after(moves).loads().values()]
    assert max(leaders) - min(leaders) <= 1


def test_a_new_broker_gets_its_share() -> None:
    """An empty broker gets replicas and leaders until the numbers are even, and nothing moves between the others."""
    replicas = {("t", index): ((1, 2), (2, 1))[index % 2] for index in range(6)}
    layout = ReplicaLayout(replicas=replicas, sizes_bytes=dict.fromkeys(replicas, 100), racks=dict.fromkeys((1, 2, 3)))
    moves = plan_balance(layout)
    loads = layout.after(moves).loads().values()
    assert [(load.replicas, load.leaders, load.size_bytes) for load in loads] == [(4, 2, 400)] * 3
    assert {broker for move in moves for broker in move.adding} == {3}
    assert sum(move.copied_bytes for move in moves) == 400


def test_bytes_are_evened_by_an_exchange() -> None:
    """Brokers with as many replicas, but other bytes, exchange replicas. A small difference stays."""
    replicas = {("t", 0): (1,), ("t", 1): (1,), ("t", 2): (2,), ("t", 3): (2,)}
    sizes = {("t", 0): 500, ("t", 1): 500, ("t", 2): 100, ("t", 3): 100}
    layout = ReplicaLayout(replicas=replicas, sizes_bytes=sizes, racks={1: None, 2: None})
    moves = plan_balance(layout)
    assert [load.size_bytes for load in layout.after(moves).loads().values()] == [600, 600]
    assert len(moves) == 2
    close = ReplicaLayout(replicas=replicas, sizes_bytes={**sizes, ("t", 2): 460, ("t", 3): 500}, racks=layout.racks)
    assert plan_balance(close) == []


def test_replicas_that_share_a_rack_are_taken_apart() -> None:
    """A partition whose replicas are all in one rack gets one in another rack."""
    layout = ReplicaLayout(replicas={("t", 0): (1, 2)}, sizes_bytes={}, racks={1: "a", 2: "a", 3: "b"})
    (move,) = plan_balance(layout)
    assert layout.spread(move.after) == 2

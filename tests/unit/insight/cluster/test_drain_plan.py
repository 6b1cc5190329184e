from __future__ import annotations

import pytest
from hypothesis import assume, given
from tests.unit.insight.layouts import check_moves, layouts

from klamm.insight.cluster.drain_plan import plan_drain
from klamm.insight.cluster.replica_layout import ReplicaLayout
from klamm.insight.cluster.replica_plan import ImpossiblePlan


@given(layouts())
def test_a_plan_empties_the_broker_and_moves_nothing_else(layout: ReplicaLayout) -> None:
    """No replica is lost, and only replicas of the broker move. The rack spread stays as wide as the brokers allow."""
    try:
        moves = plan_drain(layout, 1)
    except ImpossiblePlan:
        others = [broker for broker in layout.targets if broker != 1]
        assert not others or any(
            1 in brokers and not set(others) - set(brokers) for brokers in layout.replicas.values()
        )
        assume(False)
    check_moves(layout, moves)
    for move in moves:
        assert move.removing == (1,)
        rest = [broker for broker in move.before if broker != 1]
        free = [broker for broker in layout.targets if broker not in move.before]
        assert layout.spread(move.after) == max(layout.spread([*rest, broker]) for broker in free)
    assert layout.after(moves).loads()[1].replicas == 0
    assert plan_drain(layout, 1) == moves


def test_replicas_go_where_few_replicas_and_bytes_are() -> None:
    """The numbers of replicas stay even; among equal brokers, the one with fewer bytes gets the larger partition."""
    layout = ReplicaLayout(
        replicas={("t", 0): (1,), ("t", 1): (1,), ("t", 2): (2,), ("t", 3): (3,)},
        sizes_bytes={("t", 0): 10, ("t", 1): 500, ("t", 2): 300, ("t", 3): 100},
        racks={1: None, 2: None, 3: None},
    )
    assert {move.key[1]: move.after for move in plan_drain(layout, 1)} == {0: (2,), 1: (3,)}


def test_the_rack_decides_before_the_load() -> None:
    """A replica goes to a busy broker of a rack without a replica, not to an idle one of a rack that has one."""
    replicas = {("t", 0): (1, 2), ("u", 0): (4,), ("u", 1): (4,)}
    layout = ReplicaLayout(replicas=replicas, sizes_bytes={}, racks={1: "a", 2: "b", 3: "b", 4: "a"})
    (move,) = plan_drain(layout, 1)
    assert set(move.after) == {2, 4}


def test_leaders_spread_over_the_brokers_that_stay() -> None:
    """A partition that loses its preferred leader prefers the replica whose broker is preferred least."""
    replicas = {("t", index): (1, 2, 3) for index in range(4)}
    layout = ReplicaLayout(replicas=replicas, sizes_bytes={}, racks=dict.fromkeys((1, 2, 3, 4)))
    loads = layout.after(plan_drain(layout, 1)).loads()
    assert sorted(loads[broker].leaders for broker in (2, 3, 4)) == [1, 1, 2]


def test_too_few_brokers_are_a_reason_against_a_plan() -> None:
    """The message names the partition, and what helps."""
    layout = ReplicaLayout(replicas={("t", 0): (1, 2, 3)}, sizes_bytes={}, racks=dict.fromkeys((1, 2, 3)))
    with pytest.raises(ImpossiblePlan, match="t-0 has 3 replicas, and without broker 1 only 2 brokers can have them"):
        plan_drain(layout, 1)
    alone = ReplicaLayout(replicas={}, sizes_bytes={}, racks={1: None})
    with pytest.raises(ImpossiblePlan, match="add a broker first"):
        plan_drain(alone, 1)

"""Where the replicas of partitions go."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.insight.cluster.replica_plan import ImpossiblePlan, plan_replicas
from klamm.insight.words import PartitionKey

Present = dict[PartitionKey, tuple[int, ...]]
Targets = dict[int, str | None]


def _orders(*replicas: tuple[int, ...]) -> Present:
    return {("orders", index): each for index, each in enumerate(replicas)}


def _brokers(*ids: int) -> Targets:
    return dict.fromkeys(ids)


def test_partitions_that_are_right_do_not_move() -> None:
    """All replicas are on targets, and their number is right: there is nothing to do."""
    present = _orders((1, 2), (2, 1))
    assert plan_replicas(present, present, _brokers(1, 2, 3)) == {}


def test_only_replicas_on_other_brokers_move() -> None:
    """The new broker takes the place of the old one, so that preferred leaders stay where their brokers stay."""
    present = _orders((1, 2, 3), (2, 3, 1), (3, 1, 2))
    planned = plan_replicas(present, present, _brokers(2, 3, 4))
    assert planned == _orders((4, 2, 3), (2, 3, 4), (3, 4, 2))


def test_more_replicas_are_added_behind_the_present_ones() -> None:
    """Each replica that is added goes to the broker with the fewest replicas."""
    present = _orders((1,), (1,), (2,))
    planned = plan_replicas(present, present, _brokers(1, 2, 3), replication_factor=2)
    assert planned == _orders((1, 3), (1, 2), (2, 3))


def test_fewer_replicas_keep_the_preferred_leader() -> None:
    """The fullest broker gives up its replica, but never the preferred leader."""
    present = _orders((1, 2, 3), (1, 3, 2), (1, 2, 4))
    planned = plan_replicas(present, present, _brokers(1, 2, 3, 4), replication_factor=1)
    assert planned == _orders((1,), (1,), (1,))


def test_replicas_go_to_different_racks() -> None:
    """A rack without a replica counts more than an empty broker; a replica that shares its rack is given up first."""
    racks: Targets = {1: "a", 2: "a", 3: "b", 4: "b"}
    busy: Present = {("busy", index): (3,) if index < 5 else (4,) for index in range(6)}
    assert plan_replicas(_orders((1,)) | busy, _orders((1,)), racks, 2) == _orders((1, 4))
    assert plan_replicas(_orders((1, 2, 3)) | busy, _orders((1, 2, 3)), racks, 2) == _orders((1, 3))


def test_the_first_of_new_replicas_goes_where_few_lead() -> None:
    """If all brokers have as many replicas, preferred leaders are spread."""
    present = _orders((1, 2), (1, 2), (1, 2), (1, 2))
    planned = plan_replicas(present, present, _brokers(3, 4))
    assert Counter(replicas[0] for replicas in planned.values()) == {3: 2, 4: 2}


def test_there_must_be_a_broker_for_each_replica() -> None:
    """A replication factor above the number of targets is refused with the partition's name."""
    with pytest.raises(ImpossiblePlan, match="orders-0 is to have 3 replicas, and there are too few brokers"):
        plan_replicas(_orders((1,)), _orders((1,)), _brokers(1, 2), 3)


def test_brokers_that_get_no_replicas_are_named() -> None:
    """If brokers are cordoned or away, the refusal names them, because they would be enough otherwise."""
    reason = "there are too few brokers for them, because broker 3 is cordoned or does not run"
    with pytest.raises(ImpossiblePlan, match=reason):
        plan_replicas(_orders((1, 2)), _orders((1, 2)), _brokers(1, 2, 3), 3, down={3})
    with pytest.raises(ImpossiblePlan, match="because brokers 3, 4 are cordoned or do not run"):
        plan_replicas(_orders((1,)), _orders((1,)), _brokers(1, 3, 4), 3, down={4, 3})
    with pytest.raises(ImpossiblePlan) as refusal:
        plan_replicas(_orders((1,)), _orders((1,)), _brokers(1, 2), 3, down={7})
    assert "cordoned" not in str(refusal.value)


def test_a_broker_that_is_down_keeps_its_replicas_and_gets_no_new_ones() -> None:
    """A broker that is away moves nothing by itself, and is the first to give up a replica."""
    present = _orders((1, 2), (2, 1))
    assert plan_replicas(present, present, _brokers(1, 2, 3), down={2}) == {}
    assert plan_replicas(_orders((1,)), _orders((1,)), _brokers(1, 2, 3), 2, down={2}) == _orders((1, 3))
    assert plan_replicas(present, present, _brokers(1, 2, 3), 1, down={2}) == _orders((1,), (1,))
    with pytest.raises(ImpossiblePlan):
        plan_replicas(present, present, _brokers(1, 2, 3), 4, down={2})


@st.composite
def _worlds(draw: st.DrawFn) -> tuple[Present, Targets, int | None]:
    """Draws the replicas of some partitions, the targets with their racks, and perhaps a replication factor."""
    brokers = st.integers(1, 8)
    replicas = st.lists(brokers, min_size=1, max_size=4, unique=True).map(tuple)
    present = {("orders", index): each for index, each in enumerate(draw(st.lists(replicas, min_size=1, max_size=10)))}
    targets = draw(st.dictionaries(brokers, st.sampled_from([None, "a", "b", "c"]), min_size=4))
    return present, targets, draw(st.none() | st.integers(1, 4))


@given(_worlds())
def test_a_plan_is_right_and_moves_no_more_than_it_must(world: tuple[Present, Targets, int | None]) -> None:
    """Each partition has the wanted number of replicas, on targets, each broker once; every replica that may stay does;
    and its preferred leader stays the preferred leader if its broker is a target."""
    present, targets, factor = world
    planned = plan_replicas(present, present, targets, factor)
    for key, before in present.items():
        after = planned.get(key, before)
        wanted = factor or len(before)
        assert len(after) == len(set(after)) == wanted
        assert set(after) <= set(targets)
        assert len(set(after) & set(before)) == min(wanted, len(set(before) & set(targets)))
        if before[0] in targets:
            assert after[0] == before[0]


@given(_worlds())
def test_a_planned_partition_is_planned_no_further(world: tuple[Present, Targets, int | None]) -> None:
    """A second plan after the first has nothing to do, and plans only what was chosen."""
    present, targets, factor = world
    planned = plan_replicas(present, present, targets, factor)
    assert plan_replicas(present | planned, present, targets, factor) == {}
    chosen = sorted(present)[:1]
    assert plan_replicas(present, chosen, targets, factor).keys() <= set(chosen)


@given(_worlds())
def test_an_added_replica_shares_a_rack_only_if_it_must(world: tuple[Present, Targets, int | None]) -> None:
    """If an added replica has its rack in common with another one, no free rack is left among the targets."""
    present, targets, factor = world
    racks = {broker: rack or broker for broker, rack in targets.items()}
    for key, after in plan_replicas(present, present, targets, factor).items():
        used = Counter(racks[broker] for broker in after)
        added = set(after) - set(present[key])
        if any(used[racks[broker]] > 1 for broker in added):
            assert set(racks.values()) == set(used)


@given(st.integers(1, 20), st.integers(1, 3), st.integers(3, 5))
def test_partitions_that_move_as_a_whole_are_spread_evenly(partitions: int, replicas: int, targets: int) -> None:
    """Without racks, the numbers of replicas of new brokers differ by one at most."""
    present = _orders(*[tuple(range(1, replicas + 1))] * partitions)
    new = range(10, 10 + targets)
    planned = plan_replicas(present, present, _brokers(*new))
    loads = Counter(broker for each in planned.values() for broker in each)
    assert max(loads[broker] for broker in new) - min(loads[broker] for broker in new) <= 1


def test_of_fewer_replicas_those_in_sync_stay() -> None:
    """A replica that is not in sync goes before one that is, also the preferred leader."""
    present = _orders((1, 2, 3), (1, 2, 3), (2, 3, 1))
    behind = {("orders", 0): {2}, ("orders", 1): {1}}
    planned = plan_replicas(present, present, _brokers(1, 2, 3), replication_factor=2, behind=behind)
    assert planned == _orders((1, 3), (2, 3), (2, 1))

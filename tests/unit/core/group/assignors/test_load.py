"""Tests of the assignor `load`: its bound, how few partitions it moves, and its preferences."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.core.group.assignors.specifications import (
    group,
    groups,
    loads_of,
    moved,
    owners,
    partitions,
    topic_id,
    with_targets,
    without_members,
)

from klamm.core.group.assignors.assignor import Assignment, GroupSpec, PartitionLoad, PreviousOwner
from klamm.core.group.assignors.load import LoadAssignor, is_improvement
from klamm.core.group.assignors.load_settings import DEFAULT_LOAD_SETTINGS, LoadSettings
from klamm.core.group.assignors.load_weights import load_of, partition_weights
from klamm.core.group.assignors.uniform import UniformAssignor
from klamm.protocol.types import Millis, PartitionIndex

LOAD = LoadAssignor()
MINUTE = 60_000


def carried(spec: GroupSpec, assigned: dict[str, Assignment]) -> dict[str, int]:
    """Returns the load of each member, in thousandths of a record a second."""
    weights = partition_weights(spec, LoadSettings.from_mapping(spec.settings))
    assert weights is not None
    return {member_id: load_of(assignment, weights) for member_id, assignment in assigned.items()}


def optimum(spec: GroupSpec) -> int:
    """Returns the least possible load of the heaviest member, by trying every assignment."""
    weights = partition_weights(spec, DEFAULT_LOAD_SETTINGS)
    assert weights is not None
    readers = {
        partition: [member_id for member_id, member in spec.members.items() if partition[0] in member.topic_ids]
        for partition in weights
    }
    weighed = [(weight, readers[partition]) for partition, weight in weights.items() if readers[partition]]
    best = sum(weight for weight, _ in weighed)
    for choice in product(*(members for _, members in weighed)):
        loads = dict.fromkeys(spec.members, 0)
        for (weight, _), member_id in zip(weighed, choice, strict=True):
            loads[member_id] += weight
        best = min(best, max(loads.values()))
    return best


def read_weights(spec: GroupSpec) -> list[int]:
    """Returns the weights of the partitions that at least one member reads."""
    weights = partition_weights(spec, LoadSettings.from_mapping(spec.settings))
    assert weights is not None
    read = {topic for member in spec.members.values() for topic in member.topic_ids}
    return [weight for (topic, _), weight in weights.items() if topic in read]


@given(spec=groups(max_members=3, max_topics=3, max_partitions=3, has_loads=True), data=st.data())
def test_nobody_is_above_the_bound(spec: GroupSpec, data: st.DataObject) -> None:
    """The heaviest member carries at most the optimum plus the heaviest partition, whatever the group had before."""
    assume(len(read_weights(spec)) <= 6)
    owned: dict[str, Assignment] = {member_id: {} for member_id in spec.members}
    for topic, facts in spec.topics.items():
        readers = [member_id for member_id, member in spec.members.items() if topic in member.topic_ids]
        for index in range(facts.partition_count if readers else 0):
            owner = data.draw(st.sampled_from([*readers, None]))
            if owner is not None:
                kept = owned[owner].get(topic, frozenset())
                owned[owner] = {**owned[owner], topic: kept | {PartitionIndex(index)}}
    # With a hysteresis that no difference exceeds, the bound is the only cause to move a partition.
    settings = data.draw(st.sampled_from([{}, {"hysteresis.ratio": 0.0}, {"hysteresis.ratio": 1e6}]))
    spec = with_targets(spec, owned)._replace(settings=settings)
    loads = carried(spec, LOAD.assign(spec))
    assert max(loads.values()) <= optimum(spec) + max(read_weights(spec))


@given(spec=groups(has_loads=True))
def test_what_is_settled_stays(spec: GroupSpec) -> None:
    """A second run of the assignor with the same figures moves no partition."""
    assigned = LOAD.assign(spec)
    assert LOAD.assign(with_targets(spec, assigned)) == assigned


@given(spec=groups(has_loads=True, is_homogeneous=True), data=st.data())
def test_only_the_partitions_of_a_lost_member_move(spec: GroupSpec, data: st.DataObject) -> None:
    """The removal of one member of n moves the partitions of this member and no others."""
    assume(len(spec.members) > 1)
    before = LOAD.assign(spec)
    lost = data.draw(st.sampled_from(sorted(spec.members)))
    after = LOAD.assign(without_members(with_targets(spec, before), lost))
    assert {old for old, _ in moved(before, after).values()} <= {lost}


@given(spec=groups(has_loads=True, is_homogeneous=True))
def test_a_new_member_takes_and_nobody_else_does(spec: GroupSpec) -> None:
    """Only the new member receives partitions, unless further moves make the heaviest member lighter by more than the
    hysteresis; and the new member does not become the heaviest.
    """
    before = LOAD.assign(spec)
    members = dict(spec.members)
    members["newcomer"] = next(iter(members.values()))
    spec = with_targets(spec._replace(members=members), before)
    after = LOAD.assign(spec)
    heaviest = max(carried(spec, before).values())
    if {new for _, new in moved(before, after).values()} > {"newcomer"}:
        assert heaviest > 1.2 * max(carried(spec, after).values())
    assert carried(spec, after)["newcomer"] < heaviest


def test_a_hot_partition_stands_alone() -> None:
    """The members share the load, not the number of partitions: the hot partition is the only one of its owner."""
    spec = group({"orders": 7}, {"a": ["orders"], "b": ["orders"], "c": ["orders"]})
    spec = spec._replace(loads=loads_of("orders", [900, 100, 100, 100, 100, 100, 100]))
    assigned = LOAD.assign(spec)
    assert sorted(sum(map(len, assignment.values())) for assignment in assigned.values()) == [1, 3, 3]
    assert owners(assigned)[topic_id("orders"), PartitionIndex(0)] in {
        member_id for member_id, assignment in assigned.items() if sum(map(len, assignment.values())) == 1
    }


def test_lag_weighs_as_much_as_it_has_to_be_worked_off() -> None:
    """The weight of a lag is the rate that drains it: 300,000 records in five minutes are 1,000 records a second."""
    spec = group({"orders": 3}, {"a": ["orders"]})
    spec = spec._replace(loads=loads_of("orders", [0, 1000, 200], [300_000, 0, 60_000]))
    assert partition_weights(spec, DEFAULT_LOAD_SETTINGS) == {
        (topic_id("orders"), index): weight for index, weight in enumerate([1_001_000, 1_001_000, 401_000])
    }
    patient = LoadSettings.from_mapping({"lag.drain.ms": 3_600_000, "partition.cost": 0})
    weights = partition_weights(spec, patient)
    assert weights is not None
    assert list(weights.values()) == [83_333, 1_000_000, 216_667]


def test_topics_have_weights_of_their_own() -> None:
    """The setting `topic.weight.…` multiplies the rate of a topic whose records are expensive to process."""
    spec = group({"orders": 1, "clicks": 1}, {"a": ["orders", "clicks"]})
    spec = spec._replace(loads=loads_of("orders", [100]) | loads_of("clicks", [100]))
    weights = partition_weights(spec, LoadSettings.from_mapping({"topic.weight.orders": 5}))
    assert weights == {(topic_id("orders"), 0): 501_000, (topic_id("clicks"), 0): 101_000}


def test_partitions_without_figures_weigh_like_their_neighbours() -> None:
    """A partition without figures has the average weight of its topic, or else of all topics, and never zero."""
    spec = group({"orders": 3, "new": 1}, {"a": ["orders", "new"]})
    spec = spec._replace(loads=loads_of("orders", [100, 300]))
    weights = partition_weights(spec, DEFAULT_LOAD_SETTINGS)
    assert weights is not None
    assert weights[topic_id("orders"), PartitionIndex(2)] == 201_000
    assert weights[topic_id("new"), PartitionIndex(0)] == 201_000


def test_idle_partitions_are_shared_out_by_number() -> None:
    """Idle partitions all have the same weight, even if `partition.cost` is 0, so members get equal numbers of them."""
    spec = group({"orders": 12}, {member_id: ["orders"] for member_id in "abc"})
    for settings in ({}, {"partition.cost": 0.0}):
        spec = spec._replace(loads=loads_of("orders", [0] * 12), settings=settings)
        assert [sum(map(len, assignment.values())) for assignment in LOAD.assign(spec).values()] == [4, 4, 4]


@given(spec=groups())
def test_without_figures_it_is_uniform(spec: GroupSpec) -> None:
    """The assignor `load` answers like `uniform` if there are no figures, or none of the group's own topics."""
    other = {(topic_id("other"), PartitionIndex(0)): PartitionLoad(1.0, 1)}
    for _ in range(2):
        assigned = LOAD.assign(spec)
        assert assigned == UniformAssignor().assign(spec)
        spec = with_targets(spec, assigned)._replace(loads=other)


def test_hysteresis_keeps_small_differences() -> None:
    """A difference below the hysteresis ratio moves no partition; a larger one moves as few as balance needs."""
    spec = group({"orders": 8}, {"a": ["orders"], "b": ["orders"]})
    target = {"a": partitions(orders=[0, 1, 2, 3]), "b": partitions(orders=[4, 5, 6, 7])}
    spec = with_targets(spec, target)._replace(loads=loads_of("orders", [100] * 4 + [80] * 4))
    assert LOAD.assign(spec) == target
    spec = spec._replace(loads=loads_of("orders", [100] * 4 + [50] * 4))
    assert len(moved(target, LOAD.assign(spec))) == 1
    assert LOAD.assign(spec._replace(settings={"hysteresis.ratio": 1.0})) == target


def test_what_has_just_moved_stays() -> None:
    """A partition does not move for load within its minimum dwell time; other partitions may move."""
    spec = group({"orders": 6}, {"a": ["orders"], "b": ["orders"]})
    target = {"a": partitions(orders=[0, 1, 2, 3]), "b": partitions(orders=[4, 5])}
    spec = with_targets(spec, target)._replace(loads=loads_of("orders", [100] * 6), now=Millis(10 * MINUTE))
    just_now = {
        (topic_id("orders"), PartitionIndex(index)): PreviousOwner("gone", Millis(8 * MINUTE)) for index in (0, 1, 2)
    }
    assert moved(target, LOAD.assign(spec._replace(previous_owners=just_now))) == {
        (topic_id("orders"), PartitionIndex(3)): ("a", "b")
    }
    just_now[topic_id("orders"), PartitionIndex(3)] = PreviousOwner("gone", Millis(8 * MINUTE))
    assert LOAD.assign(spec._replace(previous_owners=just_now)) == target
    assert LOAD.assign(spec._replace(previous_owners=just_now, now=Millis(13 * MINUTE))) != target


def test_who_comes_back_gets_what_it_had() -> None:
    """A static member that was absent for longer than its session gets its former partitions back."""
    spec = group({"orders": 12}, {member_id: ["orders"] for member_id in "abc"})
    spec = spec._replace(loads=loads_of("orders", [100 + index for index in range(12)]))
    first = LOAD.assign(spec)
    without = LOAD.assign(without_members(with_targets(spec, first), "b"))
    spec = with_targets(spec, without)._replace(
        previous_owners={
            partition: PreviousOwner("instance-b", Millis(MINUTE))
            for partition, owner in owners(first).items()
            if owner == "b"
        },
        now=Millis(2 * MINUTE),
    )
    members = dict(spec.members)
    del members["b"]
    members["b-2"] = spec.members["a"]._replace(instance_id="instance-b", target={})
    again = LOAD.assign(spec._replace(members=members))
    assert again["b-2"].items() <= first["b"].items() or again["b-2"] == first["b"]
    assert sum(map(len, again["b-2"].values())) >= 3


def test_orphans_go_to_a_previous_owner_with_room() -> None:
    """An unowned partition goes to its previous owner if several members have about the same load."""
    spec = group({"orders": 6}, {"a": ["orders"], "b": ["orders"], "c": ["orders"]})
    target = {"a": partitions(orders=[0]), "b": partitions(orders=[1]), "c": partitions(orders=[2])}
    spec = with_targets(spec, target)._replace(
        loads=loads_of("orders", [100] * 6),
        previous_owners={
            (topic_id("orders"), PartitionIndex(index)): PreviousOwner(owner, Millis(0))
            for index, owner in ((3, "c"), (4, "b"), (5, "a"))
        },
    )
    assert LOAD.assign(spec) == {
        "a": partitions(orders=[0, 5]),
        "b": partitions(orders=[1, 4]),
        "c": partitions(orders=[2, 3]),
    }


def test_of_equals_a_member_in_a_rack_of_the_replicas() -> None:
    """A partition goes to a member in the rack of a replica if this does not worsen the balance."""
    spec = group({"orders": 6}, {"a": ["orders"], "b": ["orders"], "c": ["orders"]})
    racks = tuple(frozenset({f"rack-{'cba'[index % 3]}"}) for index in range(6))
    members = {member_id: member._replace(rack_id=f"rack-{member_id}") for member_id, member in spec.members.items()}
    topics = {topic_id("orders"): spec.topics[topic_id("orders")]._replace(racks=racks)}
    spec = spec._replace(members=members, topics=topics, loads=loads_of("orders", [100] * 6))
    assert LOAD.assign(spec) == {
        "a": partitions(orders=[2, 5]),
        "b": partitions(orders=[1, 4]),
        "c": partitions(orders=[0, 3]),
    }


def test_racks_do_not_cost_balance() -> None:
    """Members in other racks get their share even if all replicas are in one rack."""
    spec = group({"orders": 9}, {"a": ["orders"], "b": ["orders"], "c": ["orders"]})
    members = {member_id: member._replace(rack_id=f"rack-{member_id}") for member_id, member in spec.members.items()}
    racks = (frozenset({"rack-b", "rack-elsewhere"}),) * 9
    topics = {topic_id("orders"): spec.topics[topic_id("orders")]._replace(racks=racks)}
    spec = spec._replace(members=members, topics=topics, loads=loads_of("orders", [100] * 9))
    assert [sum(map(len, assignment.values())) for assignment in LOAD.assign(spec).values()] == [3, 3, 3]


@pytest.mark.parametrize(
    ("rates", "rested_ms", "expected"),
    [
        pytest.param([100] * 4 + [10] * 4, 6 * MINUTE, True, id="worth it"),
        pytest.param([100] * 4 + [80] * 4, 6 * MINUTE, False, id="within the hysteresis"),
        pytest.param([100] * 4 + [10] * 4, 4 * MINUTE, False, id="too soon"),
        pytest.param([1000, 1, 1, 1, 1, 1, 1, 1], 6 * MINUTE, False, id="one partition is the load"),
        pytest.param([], 6 * MINUTE, False, id="no figures"),
    ],
)
def test_is_improvement(rates: list[float], rested_ms: int, expected: bool) -> None:
    """A rebalance for load needs figures, rest, and a heaviest member that gets lighter by more than the hysteresis."""
    spec = group({"orders": 8}, {"a": ["orders"], "b": ["orders"]})
    target = {"a": partitions(orders=[0, 1, 2, 3]), "b": partitions(orders=[4, 5, 6, 7])}
    now = Millis(100 * MINUTE)
    spec = with_targets(spec, target)._replace(loads=loads_of("orders", rates), now=now)
    assert is_improvement(spec, Millis(now - rested_ms)) is expected


def test_no_improvement_while_partitions_wait_for_an_owner() -> None:
    """Partitions without an owner are no reason for a rebalance for load, because they cause a rebalance anyway."""
    spec = group({"orders": 3}, {"a": ["orders"], "b": ["orders"]})
    spec = with_targets(spec, {"a": partitions(orders=[0, 1])})
    spec = spec._replace(loads=loads_of("orders", [100, 100, 1]), now=Millis(100 * MINUTE))
    assert not is_improvement(spec, Millis(0))
    assert not is_improvement(without_members(spec, "a", "b"), Millis(0))


@given(spec=groups(has_loads=True))
def test_an_improvement_is_made_once(spec: GroupSpec) -> None:
    """After a rebalance for load no further improvement is left, so the assignment does not flap."""
    scattered = UniformAssignor().assign(spec)
    spec = with_targets(spec, scattered)._replace(now=Millis(100 * MINUTE))
    improved = LOAD.assign(spec)
    if is_improvement(spec, Millis(0)):
        assert max(carried(spec, scattered).values()) > 1.2 * max(carried(spec, improved).values())
    assert not is_improvement(with_targets(spec, improved), Millis(0))


def test_a_way_over_others_keeps_the_bound() -> None:
    """A member that can give partitions only to a full member gets lighter, because that member passes others on."""
    spec = group({"left": 4, "right": 4}, {"a": ["left"], "b": ["left", "right"], "c": ["right"], "d": ["right"]})
    target = {"a": partitions(left=[0, 1, 2]), "b": partitions(left=[3], right=[0, 1, 2, 3])}
    settings = {"hysteresis.ratio": 1000.0}
    spec = with_targets(spec, target)._replace(
        loads=loads_of("left", [100] * 4) | loads_of("right", [100] * 4), settings=settings
    )
    loads = carried(spec, LOAD.assign(spec))
    assert max(loads.values()) <= 200_000 + 2_000 + 101_000

"""Tests of properties that every server-side assignor has for every group."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.group.assignors.specifications import group, groups, ids, owners, with_targets, without_members

from klamm.core.group.assignors.assignor import AssignorFailed, GroupSpec
from klamm.core.group.assignors.built_in import BUILT_IN
from klamm.protocol.types import PartitionIndex, TopicId

NAMES = list(BUILT_IN)


def expected_partitions(spec: GroupSpec) -> set[tuple[TopicId, PartitionIndex]]:
    """Returns all partitions that need an owner: those of topics that an assignable member reads."""
    read: set[TopicId] = set()
    for member in spec.members.values():
        if member.may_be_assigned:
            read |= member.topic_ids
    return {(topic, PartitionIndex(index)) for topic in read for index in range(spec.topics[topic].partition_count)}


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_every_partition_has_one_owner(name: str, data: st.DataObject) -> None:
    """Each partition of a topic that is read has exactly one owner, which reads the topic, also after group changes."""
    assignor = BUILT_IN[name]
    spec = data.draw(groups(has_loads=data.draw(st.booleans())))
    for _ in range(3):
        assigned = assignor.assign(spec)
        assert assigned.keys() == spec.members.keys()
        found = owners(assigned)
        assert found.keys() == expected_partitions(spec)
        assert all(topic in spec.members[member_id].topic_ids for (topic, _), member_id in found.items())
        spec = data.draw(successors(with_targets(spec, assigned)))


@st.composite
def successors(draw: st.DrawFn, spec: GroupSpec) -> GroupSpec:
    """Generates the group after some members left, others joined, and topics grew."""
    leaving = draw(st.lists(st.sampled_from(sorted(spec.members)), unique=True, max_size=len(spec.members) - 1))
    spec = without_members(spec, *leaving)
    model = next(iter(spec.members.values()))
    joining = {
        f"new-{draw(st.integers(0, 100))}": model._replace(target={}, may_be_assigned=draw(st.booleans()))
        for _ in range(draw(st.integers(0, 3)))
    }
    topics = {
        topic: facts._replace(partition_count=facts.partition_count + draw(st.integers(0, 3)))
        for topic, facts in spec.topics.items()
    }
    members = joining | dict(spec.members)
    is_homogeneous = len({member.topic_ids for member in members.values()}) == 1
    return spec._replace(members=members, topics=topics, is_homogeneous=is_homogeneous)


@pytest.mark.parametrize("name", NAMES)
@given(spec=groups(has_loads=True), data=st.data())
def test_members_that_are_held_back_get_nothing(name: str, spec: GroupSpec, data: st.DataObject) -> None:
    """A member that is held back gets no partitions; the other members get what they would get without it."""
    held_back = data.draw(st.sampled_from(sorted(spec.members)))
    spec = with_targets(spec, BUILT_IN[name].assign(spec))
    member = spec.members[held_back]._replace(target={}, may_be_assigned=False)
    expected = BUILT_IN[name].assign(
        spec._replace(members={each: spec.members[each] for each in spec.members if each != held_back})
    )
    assigned = BUILT_IN[name].assign(spec._replace(members={**spec.members, held_back: member}))
    assert assigned == {**expected, held_back: {}}


@given(spec=groups(is_homogeneous=True))
def test_uniform_leaves_what_is_settled(spec: GroupSpec) -> None:
    """A second run of the assignor with equal input gives the same assignment: no partition moves without a cause."""
    assigned = BUILT_IN["uniform"].assign(spec)
    assert BUILT_IN["uniform"].assign(with_targets(spec, assigned)) == assigned


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_topics_that_do_not_exist(name: str, is_homogeneous: bool) -> None:
    """A subscription to a topic that does not exist makes the assignor fail."""
    spec = group({"orders": 3}, {"a": ["orders"], "b": ["orders"]})
    members = {
        member_id: member._replace(topic_ids=ids(["orders", "gone"])) for member_id, member in spec.members.items()
    }
    if not is_homogeneous:
        members["c"] = members["a"]._replace(topic_ids=ids(["orders"]))
    with pytest.raises(AssignorFailed, match="doesn't exist"):
        BUILT_IN[name].assign(spec._replace(members=members, is_homogeneous=is_homogeneous))


@pytest.mark.parametrize("name", NAMES)
def test_groups_without_members_or_topics(name: str) -> None:
    """A group without members or without topics is no error for an assignor."""
    assert BUILT_IN[name].assign(group({}, {})) == {}
    assert BUILT_IN[name].assign(group({}, {"a": [], "b": []})) == {"a": {}, "b": {}}


def test_names() -> None:
    """The registry has each assignor under its own name."""
    assert {name: assignor.name for name, assignor in BUILT_IN.items()} == {
        "uniform": "uniform",
        "range": "range",
        "load": "load",
    }

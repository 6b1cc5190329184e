"""Tests of the assignor `uniform`. The interoperability tests check that it agrees with Kafka's."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.core.group.assignors.specifications import (
    group,
    groups,
    moved,
    owners,
    partitions,
    topic_id,
    with_targets,
    without_members,
)

from klamm.core.group.assignors.assignor import Assignment, GroupSpec, PreviousOwner
from klamm.core.group.assignors.uniform import UniformAssignor
from klamm.protocol.types import Millis, PartitionIndex

UNIFORM = UniformAssignor()


def sizes(assigned: dict[str, Assignment]) -> dict[str, int]:
    """Returns the number of partitions of each member."""
    return {member_id: sum(map(len, topics.values())) for member_id, topics in assigned.items()}


@given(spec=groups(is_homogeneous=True), data=st.data())
def test_even_and_sticky(spec: GroupSpec, data: st.DataObject) -> None:
    """The partition counts of members differ by at most one; the removal of a member moves only its partitions."""
    before = UNIFORM.assign(spec)
    counts = sizes(before).values()
    assert max(counts) - min(counts) <= 1
    assume(len(spec.members) > 1)
    lost = data.draw(st.sampled_from(sorted(spec.members)))
    after = UNIFORM.assign(without_members(with_targets(spec, before), lost))
    assert {old for old, _ in moved(before, after).values()} <= {lost}
    counts = sizes(after).values()
    assert max(counts) - min(counts) <= 1


def test_a_new_member_gets_what_others_have_too_much() -> None:
    """A new member gets the surplus partitions of the others; all other partitions keep their owner."""
    spec = group({"orders": 9}, {"a": ["orders"], "b": ["orders"], "c": ["orders"]})
    target = {"a": partitions(orders=[0, 1, 2, 3, 4]), "b": partitions(orders=[5, 6, 7, 8])}
    assert UNIFORM.assign(with_targets(spec, target)) == {
        "a": partitions(orders=[0, 1, 2]),
        "b": partitions(orders=[5, 6, 7]),
        "c": partitions(orders=[3, 4, 8]),
    }


def test_subscriptions_that_differ_are_evened_out_over_topics() -> None:
    """The only reader of a topic owns it, and gets fewer partitions of the topics that other members read as well."""
    spec = group({"mine": 3, "ours": 3}, {"a": ["mine", "ours"], "b": ["ours"]})
    assert UNIFORM.assign(spec) == {"a": partitions(mine=[0, 1, 2]), "b": partitions(ours=[0, 1, 2])}


def test_what_is_read_no_more_goes() -> None:
    """A member that changed its subscription gives up what it no longer reads, and takes its share of the rest."""
    spec = group({"old": 2, "new": 2}, {"a": ["old"], "b": ["new"]})
    spec = with_targets(spec, {"a": partitions(old=[0], new=[1]), "b": partitions(old=[1], new=[0])})
    assert UNIFORM.assign(spec) == {"a": partitions(old=[0, 1]), "b": partitions(new=[0, 1])}


def came_back(spec: GroupSpec, member_id: str) -> tuple[GroupSpec, GroupSpec]:
    """Returns the group after a static member left and came back, without and with the memory of previous owners."""
    first = UNIFORM.assign(spec)
    second = UNIFORM.assign(without_members(with_targets(spec, first), member_id))
    spec = with_targets(spec, second)
    members = dict(spec.members)
    members["again"] = members.pop(member_id)._replace(instance_id="instance")
    left = {
        partition: PreviousOwner("instance", Millis(0))
        for partition, owner in owners(first).items()
        if owner == member_id
    }
    spec = spec._replace(members=members)
    return spec, spec._replace(previous_owners=left)


def test_who_comes_back_gets_what_it_had() -> None:
    """A static member that comes back gets its own former partitions."""
    spec = group({"orders": 12}, {member_id: ["orders"] for member_id in "abc"})
    first = UNIFORM.assign(spec)
    _, remembering = came_back(spec, "b")
    assert UNIFORM.assign(remembering)["again"] == first["b"]


@given(spec=groups(), data=st.data())
def test_handing_back_costs_nothing(spec: GroupSpec, data: st.DataObject) -> None:
    """With memory of previous owners, members have as many partitions as without it, no more partitions move, and the
    returning member gets at least as many of its own.
    """
    assume(len(spec.members) > 1)
    member_id = data.draw(st.sampled_from(sorted(spec.members)))
    forgetting, remembering = came_back(spec, member_id)
    plain, kind = UNIFORM.assign(forgetting), UNIFORM.assign(remembering)
    before = {each: member.target for each, member in forgetting.members.items()}
    assert sizes(plain) == sizes(kind)
    assert owners(plain).keys() == owners(kind).keys()
    assert len(moved(before, kind)) <= len(moved(before, plain))
    assert all(topic in forgetting.members[each].topic_ids for each in kind for topic in kind[each])
    own = remembering.previous_owners.keys()
    returned, returned_plain = (
        sum(owner == "again" and partition in own for partition, owner in owners(result).items())
        for result in (kind, plain)
    )
    assert returned >= returned_plain


def test_previous_owners_that_are_not_here_change_nothing() -> None:
    """A previous owner that has left, reads another topic, or is held back has no claim to a partition."""
    spec = group({"orders": 4, "other": 1}, {"a": ["orders"], "b": ["orders"], "c": ["other"], "d": ["orders"]})
    members = dict(spec.members)
    members["d"] = members["d"]._replace(may_be_assigned=False)
    spec = spec._replace(members=members)
    claims = {
        (topic_id("orders"), PartitionIndex(index)): PreviousOwner(name, Millis(0))
        for index, name in enumerate(["gone", "c", "d"])
    }
    claims[topic_id("deleted"), PartitionIndex(0)] = PreviousOwner("a", Millis(0))
    assert UNIFORM.assign(spec._replace(previous_owners=claims)) == UNIFORM.assign(spec)

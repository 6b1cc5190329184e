"""Tests of the assignor `range`. The interoperability tests check that it agrees with Kafka's."""

from __future__ import annotations

from tests.unit.core.group.assignors.specifications import group, partitions

from klamm.core.group.assignors.range import RangeAssignor

RANGE = RangeAssignor()


def test_ranges_are_contiguous_and_the_first_ones_larger() -> None:
    """Seven partitions for three members are split into 3, 2 and 2; topics with equal readers are split alike."""
    spec = group({"orders": 7, "payments": 7}, {member_id: ["orders", "payments"] for member_id in "cab"})
    assert RANGE.assign(spec) == {
        "a": partitions(orders=[0, 1, 2], payments=[0, 1, 2]),
        "b": partitions(orders=[3, 4], payments=[3, 4]),
        "c": partitions(orders=[5, 6], payments=[5, 6]),
    }


def test_static_members_come_first() -> None:
    """Static members are ordered by instance id, whatever their member ids are, and come before dynamic members."""
    spec = group({"orders": 3}, {member_id: ["orders"] for member_id in "abc"})
    members = dict(spec.members)
    members["b"] = members["b"]._replace(instance_id="second")
    members["c"] = members["c"]._replace(instance_id="first")
    assert RANGE.assign(spec._replace(members=members)) == {
        "a": partitions(orders=[2]),
        "b": partitions(orders=[1]),
        "c": partitions(orders=[0]),
    }


def test_names_are_compared_as_java_compares_them() -> None:
    """Names are compared by UTF-16 units: characters beyond the basic plane sort before the end of the basic plane."""
    spec = group({"orders": 2}, {"\uffee": ["orders"], "\U0001f5dd": ["orders"]})
    assert RANGE.assign(spec) == {"\U0001f5dd": partitions(orders=[0]), "\uffee": partitions(orders=[1])}


def test_each_topic_is_cut_for_its_readers() -> None:
    """A topic is divided among the members that read it; a member may get no partition."""
    spec = group({"orders": 2, "payments": 1}, {"a": ["orders"], "b": ["orders", "payments"], "c": ["payments"]})
    assert RANGE.assign(spec) == {"a": partitions(orders=[0]), "b": partitions(orders=[1], payments=[0]), "c": {}}

"""The assignor `range`. That it agrees with Kafka's is shown by the interoperability tests."""

from __future__ import annotations

from tests.unit.core.group.assignors.specifications import group, partitions

from klamm.core.group.assignors.range import RangeAssignor

RANGE = RangeAssignor()


def test_ranges_are_contiguous_and_the_first_ones_larger() -> None:
    """Seven partitions for three members are 3, 2 and 2; topics that are alike are cut alike."""
    spec = group({"orders": 7, "payments": 7}, {member_id: ["orders", "payments"] for member_id in "cab"})
    assert RANGE.assign(spec) == {
        "a": partitions(orders=[0, 1, 2], payments=[0, 1, 2]),
        "b": partitions(orders=[3, 4], payments=[3, 4]),
        "c": partitions(orders=[5, 6], payments=[5, 6]),
    }


def test_static_members_come_first() -> None:
    """By instance id, whatever their member ids are."""
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
    """By UTF-16 units: what lies beyond the basic plane comes before the last part of the basic plane."""
    spec = group({"orders": 2}, {"\uffee": ["orders"], "\U0001f5dd": ["orders"]})
    assert RANGE.assign(spec) == {"\U0001f5dd": partitions(orders=[0]), "\uffee": partitions(orders=[1])}


def test_each_topic_is_cut_for_its_readers() -> None:
    """A member that doesn't read a topic doesn't count for it; members may be left without anything."""
    spec = group({"orders": 2, "payments": 1}, {"a": ["orders"], "b": ["orders", "payments"], "c": ["payments"]})
    assert RANGE.assign(spec) == {"a": partitions(orders=[0]), "b": partitions(orders=[1], payments=[0]), "c": {}}

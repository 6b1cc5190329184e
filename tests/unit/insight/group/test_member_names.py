"""Tests the display names of members."""

from __future__ import annotations

from klamm.insight.group.member_names import MemberNames


def test_the_client_id_is_enough_where_it_is_the_only_one() -> None:
    """The client id is the name if it is unique; otherwise, the random part of the member id is added."""
    names = MemberNames()
    names.add("worker-1f0c8a52-0000", None, "worker")
    assert names.of("worker-1f0c8a52-0000") == "worker"
    names.add("worker-77aa01b3-0000", None, "worker")
    names.add("pKq8vY2mTzGm7v0nq1sW5A", None, "worker")
    assert names.all_of(["worker-77aa01b3-0000", "worker-1f0c8a52-0000", "pKq8vY2mTzGm7v0nq1sW5A"]) == [
        "worker#1f0c8a52",
        "worker#77aa01b3",
        "worker#pKq8vY2m",
    ]


def test_a_static_member_has_its_instance_id() -> None:
    """A static member is named by its instance id, for all its member ids."""
    names = MemberNames()
    names.add("first-1", "instance-1", "client")
    names.add("first-2", "instance-1", "client")
    names.add("second", None, "client")
    assert [names.of(member) for member in ("first-1", "first-2", "second")] == ["instance-1", "instance-1", "client"]


def test_whoever_is_unknown_keeps_the_id() -> None:
    """An unknown member keeps its id, and a member without a client id gets a shortened id."""
    names = MemberNames()
    assert names.of("stranger") == "stranger"
    names.add("-0123456789", None, "")
    assert names.of("-0123456789") == "#01234567"


def test_ids_in_a_text_become_names() -> None:
    """Member ids in a text become names, also if one id is the prefix of another."""
    names = MemberNames()
    assert names.in_text("member a-1 left") == "member a-1 left"
    names.add("a-1", None, "short")
    names.add("a-11", None, "long")
    assert names.in_text("member a-11 left, then a-1") == "member long left, then short"

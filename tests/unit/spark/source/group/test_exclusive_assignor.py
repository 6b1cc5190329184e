"""Tests the assignor that gives all partitions to the oldest member."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from klamm.core.group.consumer.migration.embedded_assignment import CustomAssignor, target
from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.types import PartitionIndex, TopicPartition
from klamm.spark.source.group.exclusive_assignor import MemberData, assign, encode_member_data, owner_in

PARTITIONS = frozenset(TopicPartition("t", PartitionIndex(index)) for index in range(3))


def metadata(since: int) -> bytes:
    return encode_member_data(MemberData("app", PARTITIONS, since))


@given(st.dictionaries(st.text("abcdef", min_size=1), st.integers(-1, 20), min_size=1))
def test_one_of_the_oldest_owns_everything(members: dict[str, int]) -> None:
    """One of the oldest members owns all partitions; every member learns the owner, and the result is the same for
    any leader."""
    assignments = assign({member: metadata(since) for member, since in members.items()})

    (owner,) = {owner_in(assignment) for assignment in assignments.values()}
    assert owner is not None
    ages = {member: since if since >= 0 else 1_000 for member, since in members.items()}
    assert ages[owner] == min(ages.values())
    assert assign({member: metadata(members[member]) for member in reversed(members)}) == assignments
    for member, assignment in assignments.items():
        assigned = decode_assignment(assignment).assigned_partitions
        assert [(topic.topic, topic.partitions) for topic in assigned] == (
            [("t", [0, 1, 2])] if member == owner else []
        )


def test_what_a_member_says_is_a_subscription_of_a_consumer() -> None:
    """A member's metadata is a valid consumer subscription, so that tools show its topics."""
    assert decode_subscription(metadata(3)).topics == ["t"]


@given(st.binary())
def test_a_member_that_is_not_understood_stands_behind(garbage: bytes) -> None:
    """A member with unreadable metadata never becomes the owner while another member has valid metadata."""
    assignments = assign({"a": garbage, "b": metadata(7)})

    assert owner_in(assignments["a"]) == owner_in(assignments["b"]) == "b"


@given(st.binary())
def test_an_assignment_of_another_assignor_names_no_owner(garbage: bytes) -> None:
    """An assignment of another assignor names no owner, for example in a group of the new consumer protocol."""
    assert owner_in(garbage) is None


def test_no_coordinator_makes_a_consumer_group_of_it() -> None:
    """No coordinator upgrades this group to the consumer protocol, because every assignment has user data."""
    for assignment in assign({"a": metadata(1), "b": metadata(2)}).values():
        assert decode_assignment(assignment).user_data
        try:
            target(None, assignment)  # type: ignore[arg-type]  # it comes to no topic
        except CustomAssignor:
            continue
        raise AssertionError("it would be upgraded")

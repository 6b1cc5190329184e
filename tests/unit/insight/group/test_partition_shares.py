"""Tests the description of how an assignor distributes partitions, with the numbers of a group."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.insight.pictures import group, member

from klamm.insight.group.group_picture import GroupPicture, MemberPicture
from klamm.insight.group.partition_shares import share_lines, subscribed_topics

STAYS = "; it leaves partitions where they are as far as it can"


def _members(count: int, **fields: Any) -> list[MemberPicture]:
    return [member(f"member-{number}", **fields) for number in range(count)]


def _lines(picture: GroupPicture, **counts: int) -> list[str]:
    return list(share_lines(picture, counts, {}))


@pytest.mark.parametrize(
    ("members", "partitions", "shares"),
    [
        (1, 6, "6 partitions among 1 member: it has 6"),
        (3, 6, "6 partitions among 3 members: each has 2"),
        (4, 6, "6 partitions among 4 members: 2 have 2, 2 have 1"),
        (4, 5, "5 partitions among 4 members: 1 has 2, 3 have 1"),
        (3, 2, "2 partitions among 3 members: 2 have 1, 1 has 0"),
        (2, 1, "1 partition among 2 members: 1 has 1, 1 has 0"),
    ],
)
def test_even_shares(members: int, partitions: int, shares: str) -> None:
    """The server's uniform assignor and similar client assignors give equal shares."""
    uniform = group(*_members(members))
    assert _lines(uniform, orders=partitions) == [f"uniform shares out evenly: {shares}{STAYS}"]
    round_robin = group(*_members(members), kind="classic", assignor="roundrobin")
    assert _lines(round_robin, orders=partitions) == [
        f"roundrobin shares out evenly: {shares}",
        "the group's leader, one of its members, applies the assignor",
    ]


@pytest.mark.parametrize(
    ("members", "counts", "shares"),
    [
        (3, {"orders": 6}, "orders: 2 each"),
        (4, {"orders": 6}, "orders: the first 2 have 2, the others 1"),
        (3, {"orders": 4}, "orders: the first has 2, the others 1"),
        (3, {"orders": 2}, "orders: 1 for the first 2 of 3"),
        (3, {"orders": 1}, "orders: 1 for the first"),
        (2, {"orders": 3, "bills": 1}, "bills: 1 for the first and orders: the first has 2, the others 1"),
        (2, {}, "nothing to share"),
    ],
)
def test_ranges(members: int, counts: dict[str, int], shares: str) -> None:
    """The range assignor divides each topic separately and favours the same members in each topic."""
    picture = group(*_members(members, topics=frozenset({"orders", "bills"})), assignor="range")
    assert _lines(picture, **counts) == [
        f"range shares out each topic by itself, in the order of the members' ids: {shares}"
    ]


def test_other_assignors_have_their_rule() -> None:
    """Other assignors are described by their rule or only named; without an assignor or members there is no line."""
    assert _lines(group(member("one"), assignor="load")) == [
        f"load shares out by arrival rate and lag: members get equal work, not equal numbers of partitions{STAYS}"
    ]
    assert _lines(group(member("one"), assignor="custom"))[0] == "custom, an assignor of its own, shares out"
    assert _lines(group(member("one"), assignor=None)) == []
    assert _lines(group(assignor="uniform")) == []


def test_members_may_want_different_topics() -> None:
    """If members subscribe to different topics, the description has no numbers."""
    picture = group(member("one"), member("two", topics=frozenset({"bills"})))
    assert _lines(picture, orders=3, bills=2) == [
        "uniform shares out evenly, as far as members subscribe to the same topics; here they differ" + STAYS
    ]


def test_topics_come_from_subscriptions_patterns_or_what_members_have() -> None:
    """The subscribed topics come from subscriptions, known patterns and assigned partitions."""
    one = member("one", [0], topics=frozenset({"bills"}), pattern="ord.*")
    two = member("two", [1], topics=None)
    picture = group(one, two)
    assert subscribed_topics(picture, {"ord.*": ("orders", "orders-2")}) == {"bills", "orders", "orders-2"}
    assert subscribed_topics(picture, {}, only=one) == {"bills"}
    assert subscribed_topics(picture, {}, only=two) == {"orders"}


def test_ranges_go_to_the_members_that_subscribe_to_the_topic() -> None:
    """Each topic is divided among its own subscribers. A member whose subscription is unknown counts for all topics."""
    one, two = _members(2)
    three = member("three", topics=frozenset({"bills"}))
    picture = group(one, two, three, assignor="range")
    assert _lines(picture, orders=6, bills=3)[0].endswith("ids: bills: 3 each and orders: 3 each")
    unknown = group(one, member("two", topics=None), assignor="range")
    assert _lines(unknown, orders=1)[0].endswith("ids: orders: 1 for the first")
    assert _lines(unknown, orders=4)[0].endswith("ids: orders: 2 each")

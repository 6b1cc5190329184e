"""Tests which member waits for which other member."""

from __future__ import annotations

import pytest
from tests.unit.insight.pictures import NOW_MS, group, keys, member

from klamm.insight.group.group_picture import GroupPicture
from klamm.insight.group.group_waits import Wait, group_wait, wait_words, waits
from klamm.insight.group.member_names import MemberNames
from klamm.insight.group.replayed_group import ReplayedGroup, ReplayedMember


def _names(picture: GroupPicture) -> MemberNames:
    names = MemberNames()
    picture.name_members(names)
    return names


UNKNOWN = "; it does not say who has not yet"
RECONCILING = group(member("one", [0, 1, 2], [0]), member("two", [], [1, 2]), state="reconciling")


def test_a_member_waits_for_whoever_has_what_it_is_to_get() -> None:
    """A member waits for each member that still has its target partitions, with one wait for each of them."""
    assert waits(RECONCILING) == [Wait("two-0", keys([1, 2]), "one-0", None)]
    three = group(member("one", [0, 1], [0]), member("two", [2, 3], [3]), member("three", [], [1, 2]))
    assert waits(three) == [Wait("three-0", keys([1]), "one-0", None), Wait("three-0", keys([2]), "two-0", None)]
    assert waits(group(member("one", [0]))) == []


def test_the_log_tells_since_when() -> None:
    """A wait begins when the holder was told to give back the partition, or else when the target was set."""
    replayed = ReplayedGroup("billing", assigned_ms=1_000)
    assert waits(RECONCILING, replayed)[0].since_ms == 1_000
    replayed.members["one-0"] = ReplayedMember("one-0", pending_revocation=keys([1, 2]), changed_ms=2_000)
    assert waits(RECONCILING, replayed)[0].since_ms == 2_000


def test_waits_are_told_in_words() -> None:
    """A wait is described with short member names."""
    names = _names(RECONCILING)
    wait = Wait("two-0", keys([1, 2]), "one-0", None)
    assert wait_words(wait, names, NOW_MS) == "orders 1, 2 from one"
    assert wait_words(wait._replace(since_ms=NOW_MS - 4_000), names, NOW_MS) == (
        "orders 1, 2 from one, who was told 4.0 s ago"
    )
    assert wait_words(wait._replace(holder_id=None), names, NOW_MS) == (
        "orders 1, 2, which no member owns any more: the coordinator assigns them with the next heartbeat"
    )


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            "preparing-rebalance",
            ["the coordinator waits until all members have joined again, for 5 min at most" + UNKNOWN],
        ),
        (
            "completing-rebalance",
            ["the coordinator waits for the leader, probably still one, to share out the partitions"],
        ),
        ("assigning", ["the coordinator computes a new target"]),
        ("stable", []),
        ("empty", []),
    ],
)
def test_a_coordinator_waits_too(state: str, words: list[str]) -> None:
    """In a classic group, the coordinator waits for all members and then for the leader."""
    picture = group(member("one"), kind="classic", state=state)
    replayed = ReplayedGroup("billing", leader="one-0")
    replayed.members["one-0"] = ReplayedMember("one-0", rebalance_timeout_ms=300_000)
    assert list(group_wait(picture, replayed, _names(picture))) == words


def test_klamm_names_those_for_whom_a_classic_group_waits() -> None:
    """klamm names the members that a classic group waits for: members that have not rejoined, new members, and then
    the leader."""
    picture = group(
        member("one"), member("two"), kind="classic", state="preparing-rebalance", awaited=frozenset({"two-0", "x-1"})
    )
    assert list(group_wait(picture, None, _names(picture))) == [
        "the coordinator waits for two and x-1, who is new, to join again"
    ]
    picture = group(member("one"), kind="classic", state="preparing-rebalance", awaited=frozenset())
    assert list(group_wait(picture, None, _names(picture))) == [
        "all members have joined: the coordinator waits a moment for more to come"
    ]
    picture = group(member("one"), kind="classic", state="completing-rebalance", awaited=frozenset({"one-0"}))
    assert list(group_wait(picture, ReplayedGroup("billing", leader="gone-0"), _names(picture))) == [
        "the coordinator waits for the leader, one, to share out the partitions"
    ]


def test_without_the_log_it_is_told_without_figures() -> None:
    """Without the log, a wait is described without times, and a leader that has left is not named."""
    names = MemberNames()
    joining = group(member("one"), kind="classic", state="preparing-rebalance")
    assert list(group_wait(joining, None, names)) == [
        "the coordinator waits until all members have joined again" + UNKNOWN
    ]
    syncing = group(member("one"), kind="classic", state="completing-rebalance")
    for replayed in (None, ReplayedGroup("billing", leader="gone-0")):
        assert list(group_wait(syncing, replayed, names)) == [
            "the coordinator waits for the leader to share out the partitions"
        ]

"""Tests which follower a consumer of a rack is told to read from."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from klamm.core.replication.closest_follower import closest_follower
from klamm.core.replication.follower_progress import FollowerProgress
from klamm.protocol.types import BrokerId, Offset

LEADER, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
RACKS = {LEADER: "a", TWO: "b", THREE: "b"}


def follower(end: int, *, start: int = 0, caught_up_ms: float = 0) -> FollowerProgress:
    progress = FollowerProgress(caught_up_ms)
    progress.fetched(Offset(end), Offset(start), Offset(100), 7, 0)
    return progress


def chosen(
    followers: Mapping[BrokerId, FollowerProgress],
    *,
    rack: str = "b",
    offset: int = 5,
    racks: Mapping[BrokerId, str] = RACKS,
) -> BrokerId | None:
    return closest_follower(rack, racks.get, LEADER, followers, Offset(offset))


def test_a_follower_in_the_rack_is_chosen() -> None:
    """A consumer reads from the replica in its own rack."""
    assert chosen({TWO: follower(10)}) == TWO


@pytest.mark.parametrize("rack", ["a", "c"])
def test_the_leader_is_chosen_in_its_rack_and_for_a_rack_without_a_replica(rack: str) -> None:
    """A follower elsewhere is no closer than the leader."""
    assert chosen({TWO: follower(10), THREE: follower(10)}, rack=rack) is None


def test_the_leader_is_chosen_if_it_shares_the_rack_with_followers() -> None:
    """The leader has all records first."""
    assert chosen({TWO: follower(10)}, racks={LEADER: "b", TWO: "b"}) is None


@pytest.mark.parametrize(("offset", "expected"), [(1, None), (2, TWO), (10, TWO), (11, None)])
def test_a_follower_without_the_offset_is_not_chosen(offset: int, expected: BrokerId | None) -> None:
    """The consumer would get OFFSET_OUT_OF_RANGE from a follower that has not copied the offset, or has deleted it."""
    assert chosen({TWO: follower(10, start=2)}, offset=offset) == expected


def test_the_follower_that_has_copied_most_is_chosen() -> None:
    """Of several followers in the rack the newest one is chosen: by end offset, then by time, then by id."""
    assert chosen({TWO: follower(11), THREE: follower(10)}) == TWO
    assert chosen({TWO: follower(10, caught_up_ms=9), THREE: follower(10, caught_up_ms=8)}) == TWO
    assert chosen({TWO: follower(10), THREE: follower(10)}) == THREE


def test_a_broker_without_a_rack_is_not_chosen() -> None:
    """A broker that the consumer can't reach, or whose rack is unknown, is not in the consumer's rack."""
    assert chosen({TWO: follower(10)}, racks={LEADER: "a"}) is None

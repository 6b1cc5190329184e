"""Tests the rule by which the high watermark rises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.core.replication.high_watermark import next_high_watermark
from klamm.protocol.types import Offset

OFFSETS = st.integers(0, 50).map(Offset)


def _next(current: int, leader: int, *followers: int, in_sync: int | None = None, minimum: int = 1) -> int:
    count = 1 + len(followers) if in_sync is None else in_sync
    return next_high_watermark(Offset(current), Offset(leader), [Offset(each) for each in followers], count, minimum)


@pytest.mark.parametrize(
    ("current", "leader", "followers", "expected"),
    [
        (0, 7, (), 7),
        (3, 7, (5, 6), 5),
        (3, 7, (9, 8), 7),
        (3, 7, (3, 7), 3),
        (6, 7, (2, 7), 6),
        (6, 4, (), 6),
    ],
)
def test_high_watermark_is_the_least_that_all_in_sync_replicas_hold(
    current: int, leader: int, followers: tuple[int, ...], expected: int
) -> None:
    """The high watermark follows the slowest in-sync replica, and never falls, even if a replica is behind it."""
    assert _next(current, leader, *followers) == expected


def test_high_watermark_stands_still_below_the_minimum_of_in_sync_replicas() -> None:
    """Too few in-sync replicas commit nothing (KIP-966); with enough of them the high watermark rises again."""
    assert _next(3, 9, minimum=2) == 3
    assert _next(3, 9, 9, minimum=2) == 9


def test_replica_that_is_about_to_join_is_waited_for_but_does_not_count() -> None:
    """While the in-sync replicas change, the high watermark waits for the old and the new set (KIP-497). A replica that
    is not committed as in-sync does not count for the minimum."""
    assert _next(3, 9, 5, in_sync=1) == 5
    assert _next(3, 9, 9, in_sync=1, minimum=2) == 3


@given(OFFSETS, OFFSETS, st.lists(OFFSETS, max_size=4), st.integers(1, 5), st.integers(1, 5))
def test_high_watermark_keeps_its_invariants(
    current: Offset, leader: Offset, followers: list[Offset], in_sync: int, minimum: int
) -> None:
    """I5: the high watermark never falls, rises only to an offset that each in-sync replica has reached, and stands
    still below the minimum of in-sync replicas."""
    after = next_high_watermark(current, leader, followers, in_sync, minimum)
    assert after >= current
    if after > current:
        assert in_sync >= minimum
        assert after == min([leader, *followers])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=40))
def test_high_watermark_follows_replicas_that_only_grow(steps: list[tuple[int, int]]) -> None:
    """Over any order of appends and fetches, the high watermark equals the lowest end offset of three replicas."""
    ends, high_watermark = [0, 0, 0], Offset(0)
    for replica, count in steps:
        ends[replica] += count
        leader, *followers = map(Offset, ends)
        high_watermark = next_high_watermark(high_watermark, leader, followers, 3, 2)
        assert high_watermark == min(ends)

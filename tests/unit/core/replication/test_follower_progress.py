"""Tests how a leader judges whether a follower keeps up."""

from __future__ import annotations

from klamm.core.replication.follower_progress import FollowerProgress
from klamm.protocol.types import Offset

START = Offset(0)
LAG_MS = 100


def fetched(progress: FollowerProgress, end: int, leader_end: int, now_ms: float) -> None:
    progress.fetched(Offset(end), START, Offset(leader_end), 7, now_ms)


def test_follower_that_has_never_fetched_is_not_caught_up() -> None:
    """Without a Fetch the follower holds nothing, as far as the leader knows."""
    assert not FollowerProgress().is_caught_up(Offset(0), 0, LAG_MS)


def test_in_sync_follower_has_the_whole_lag_time_after_an_election() -> None:
    """The new leader knows nothing of an in-sync follower, and waits as long as for any other."""
    progress = FollowerProgress(caught_up_ms=1000)
    assert progress.is_caught_up(Offset(5), 1000 + LAG_MS, LAG_MS)
    assert not progress.is_caught_up(Offset(5), 1001 + LAG_MS, LAG_MS)


def test_follower_at_the_end_is_caught_up_however_long_ago_it_fetched() -> None:
    """Nothing was appended since, so the follower misses nothing."""
    progress = FollowerProgress()
    fetched(progress, 5, 5, 0)
    assert progress.is_caught_up(Offset(5), 1_000_000, LAG_MS)
    assert not progress.is_caught_up(Offset(6), 1_000_000, LAG_MS)


def test_follower_that_reaches_the_end_of_the_previous_fetch_was_caught_up_then() -> None:
    """Under constant load the follower is always some records behind; it counts as caught up at its previous Fetch."""
    progress = FollowerProgress()
    for step in range(20):
        fetched(progress, 10 * step, 10 * step + 10, 50.0 * step)
    assert progress.caught_up_ms == 50.0 * 18
    assert progress.is_caught_up(Offset(1000), 50.0 * 20, LAG_MS)


def test_follower_that_stays_behind_is_not_caught_up() -> None:
    """A follower that does not reach the end of its previous Fetch falls behind."""
    progress = FollowerProgress(caught_up_ms=0)
    for step in range(20):
        fetched(progress, step, 10 * step + 100, 50.0 * step)
    assert progress.caught_up_ms == 0
    assert not progress.is_caught_up(Offset(1000), 1000, LAG_MS)

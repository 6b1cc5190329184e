"""Tests which followers count as in sync."""

from __future__ import annotations

import pytest

from klamm.core.replication.follower_progress import FollowerProgress
from klamm.core.replication.in_sync_replicas import is_eligible, maximal, may_join, out_of_sync
from klamm.protocol.types import BrokerId, Offset

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def progress_at(end: int, *, epoch: int = 7, now_ms: float = 0, leader_end: int = 10) -> FollowerProgress:
    progress = FollowerProgress()
    progress.fetched(Offset(end), Offset(0), Offset(leader_end), epoch, now_ms)
    return progress


def test_high_watermark_waits_for_both_sets_during_a_proposal() -> None:
    """Until the outcome of a proposal is known, the metadata may hold the old or the new set (KIP-497)."""
    assert maximal([ONE, TWO], None) == {ONE, TWO}
    assert maximal([ONE, TWO], [ONE]) == {ONE, TWO}
    assert maximal([ONE], [ONE, THREE]) == {ONE, THREE}


@pytest.mark.parametrize(("live_epoch", "is_it"), [(7, True), (8, False), (6, False), (None, False)])
def test_only_the_live_run_that_has_fetched_is_eligible(live_epoch: int | None, is_it: bool) -> None:
    """A broker that has started again since its Fetch may have lost records (KIP-903); one that stops hands over."""
    assert is_eligible(progress_at(10), live_epoch) is is_it


@pytest.mark.parametrize(
    ("end", "high_watermark", "epoch_start", "may"),
    [(10, 10, 10, True), (9, 9, 5, True), (9, 10, 5, False), (9, 5, 10, False), (10, 5, 10, True)],
)
def test_follower_joins_with_all_committed_records_of_this_and_earlier_leaders(
    end: int, high_watermark: int, epoch_start: int, may: bool
) -> None:
    """The follower needs the records below the high watermark, and those that the leader had at its election."""
    assert may_join(progress_at(end), 7, Offset(high_watermark), Offset(epoch_start)) is may
    assert not may_join(progress_at(end), 8, Offset(high_watermark), Offset(epoch_start))


def test_follower_that_lags_for_too_long_is_out_of_sync() -> None:
    """The leader itself, and followers that keep up, stay."""
    followers = {TWO: progress_at(10, now_ms=100), THREE: progress_at(5, now_ms=0)}
    assert out_of_sync(followers, [ONE, TWO, THREE], Offset(11), 150, 100) == [THREE]
    assert out_of_sync(followers, [ONE, TWO, THREE], Offset(11), 250, 100) == [TWO, THREE]
    assert out_of_sync(followers, [ONE, TWO, THREE], Offset(10), 250, 100) == [THREE]

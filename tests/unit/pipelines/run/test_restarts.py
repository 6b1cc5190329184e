"""Tests when a query that failed starts again."""

from __future__ import annotations

from klamm.pipelines.run.restarts import Restarts


def test_the_pauses_grow_and_have_a_limit() -> None:
    """The pauses double up to a minute; after the limit the query stays stopped."""
    restarts = Restarts(limit=8)

    starts = [restarts.next_start(100.0) for _ in range(9)]

    assert starts == [101.0, 102.0, 104.0, 108.0, 116.0, 132.0, 160.0, 160.0, None]
    assert restarts.total == 8


def test_progress_forgives() -> None:
    """A finished micro-batch makes all restarts possible again."""
    restarts = Restarts(limit=1)
    assert restarts.next_start(0.0) == 1.0

    restarts.progressed()

    assert restarts.next_start(5.0) == 6.0
    assert restarts.next_start(7.0) is None
    assert (restarts.count, restarts.total) == (1, 2)


def test_no_restarts() -> None:
    """With a limit of 0 the first failure is final."""
    assert Restarts(limit=0).next_start(0.0) is None

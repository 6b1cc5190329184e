"""Tests how long commits may keep a query waiting while its coordinator is away."""

from __future__ import annotations

import pytest

from klamm.spark.source.group.commit_patience import FULL_PATIENCE_S, CommitPatience


def test_a_coordinator_that_nothing_is_known_against_gets_full_patience() -> None:
    """A coordinator without a recent failure gets full patience, since it may be moving; each success restores that
    state."""
    patience = CommitPatience()
    assert patience.left_s(100.0) == FULL_PATIENCE_S

    patience.failed(110.0)
    assert patience.left_s(110.0) == 0
    patience.succeeded()
    assert patience.left_s(110.0) == FULL_PATIENCE_S


def test_one_that_failed_rests_longer_and_longer() -> None:
    """After each failure commits pause longer, from one second to a minute; a retry may take a tenth of the time
    since the failure."""
    patience, now, rests = CommitPatience(), 0.0, []
    for _ in range(9):
        patience.failed(now)
        rest = next(rest for rest in range(100) if patience.left_s(now + rest))
        assert patience.left_s(now + rest) == pytest.approx(rest / 10)
        rests.append(rest)
        now += rest

    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_who_asks_seldom_has_the_patience_to_wait() -> None:
    """A query that commits rarely, as with a trigger every hour, may wait with full patience."""
    patience = CommitPatience()
    patience.failed(0.0)

    assert patience.left_s(3_600.0) == FULL_PATIENCE_S


def test_the_last_commit_gets_full_patience_once() -> None:
    """The last commit gets full patience only once, because Spark may ask a finished source again with each
    micro-batch."""
    patience = CommitPatience()
    patience.failed(0.0)

    assert patience.left_s(0.5, is_last=True) == FULL_PATIENCE_S
    patience.failed(10.5)
    assert patience.left_s(11.0, is_last=True) == 0
    assert patience.left_s(12.5, is_last=True) == pytest.approx(0.2)

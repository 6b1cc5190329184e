"""Tests when a query that failed starts again."""

from __future__ import annotations

from klamm.client.config import ClientConfig
from klamm.pipelines import Pipeline
from klamm.pipelines.run.restarts import Restarts


def test_the_pauses_grow_and_have_a_limit() -> None:
    """The pauses double up to a minute; after the limit the query stays stopped."""
    restarts = Restarts(limit=8)

    starts = [restarts.next_start(100.0) for _ in range(9)]

    assert starts == [101.0, 102.0, 104.0, 108.0, 116.0, 132.0, 160.0, 160.0, None]
    assert restarts.total == 8


def test_a_flow_that_always_restarts() -> None:
    """With a limit that is never reached, a flow waits for a cluster that is away for days, and does not end the run by
    an error of its own arithmetic."""
    restarts = Restarts(limit=1_000_000)

    starts = [restarts.next_start(100.0) for _ in range(2_000)]

    assert set(starts[6:]) == {160.0}


def seconds_outlived(attempt_s: float) -> float:
    """Returns how long the cause of a failure may last for a pipeline with the default number of restarts: from the
    begin of the first attempt that fails to the end of the last one, each of which takes so long to fail."""
    restarts, now = Restarts(limit=Pipeline("flights").max_restarts), attempt_s
    while (start := restarts.next_start(now)) is not None:
        now = start + attempt_s
    return now


def test_what_five_restarts_outlive() -> None:
    """A full disk fails an attempt at once, and may be full for half a minute. A broker that is away fails an attempt
    after the client's minute, and may be away for six: docs/reference/pipelines.md says so."""
    assert seconds_outlived(attempt_s=0) == 31
    minute_s = ClientConfig(()).default_api_timeout_ms / 1000
    assert seconds_outlived(attempt_s=minute_s) == 6 * 60 + 31


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

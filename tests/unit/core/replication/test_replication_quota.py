"""Tests the rate of throttled replication, and which replicas a configuration names."""

from __future__ import annotations

import pytest

from klamm.core.replication.replication_quota import ReplicationQuota, names_replica


def _quota(limit: int = 1000) -> ReplicationQuota:
    return ReplicationQuota(limit, samples=10, sample_ms=1000)


def test_quota_without_traffic_is_not_exceeded() -> None:
    """Without traffic the rate is 0, which no limit refuses, not even 0."""
    quota = _quota(0)
    assert quota.rate(5000) == 0.0
    assert not quota.is_exceeded(5000)


def test_first_bytes_count_for_a_whole_sample() -> None:
    """The rate is never that of less than one sample: a burst is not an endless rate."""
    quota = _quota()
    quota.record(1000, 0)
    assert quota.rate(0) == 1000.0
    assert not quota.is_exceeded(0)
    quota.record(1, 1)
    assert quota.is_exceeded(1)


def test_rate_falls_while_nothing_is_sent() -> None:
    """A quota that is used up is free again when enough time has passed."""
    quota = _quota()
    quota.record(4000, 0)
    assert quota.is_exceeded(3999)
    assert not quota.is_exceeded(4000)
    assert quota.rate(8000) == 500.0


def test_samples_leave_the_window() -> None:
    """Only the last samples count, and the rate is over the time since the oldest of them began."""
    quota = _quota()
    for second in range(12):
        quota.record(1000 * second, 1000.0 * second)
    assert quota.rate(11_000) == sum(range(2, 12)) * 1000 / 9
    assert quota.rate(20_999) == 11_000 * 1000 / (20_999 - 11_000)
    assert quota.rate(21_000) == 0.0


def test_bytes_of_one_time_span_share_a_sample() -> None:
    """Bytes within one sample's time add up, and the next time span has its own sample."""
    quota = _quota()
    for now_ms in (0, 500, 999, 1000):
        quota.record(100, now_ms)
    assert quota.rate(1000) == 400.0
    assert quota.rate(2000) == 200.0


def test_raised_limit_frees_the_quota() -> None:
    """A limit may change at any time."""
    quota = _quota(10)
    quota.record(500, 0)
    assert quota.is_exceeded(1000)
    quota.limit = 1000
    assert not quota.is_exceeded(1000)


@pytest.mark.parametrize(
    ("throttled", "partition", "broker_id", "is_named"),
    [
        (set(), 0, 1, False),
        ({"*"}, 7, 3, True),
        ({"0:1", "1:2"}, 0, 1, True),
        ({"0:1", "1:2"}, 1, 1, False),
        ({"10:1"}, 0, 1, False),
    ],
)
def test_replicas_are_named_by_partition_and_broker(
    throttled: set[str], partition: int, broker_id: int, is_named: bool
) -> None:
    """A list names a replica as `partition:broker`, or all of the topic as `*`."""
    assert names_replica(throttled, partition, broker_id) is is_named

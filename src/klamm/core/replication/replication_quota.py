"""Decides when replication is throttled (KIP-73): the rate of the last seconds, and which replicas are concerned.

A replica that is in sync is never throttled: otherwise the throttle would take it out of the in-sync replicas.

Source: `ReplicationQuotaManager`, and `SampledStat` and `SimpleRate` of Kafka's metrics, of Apache Kafka 4.3. The
module does no I/O; times are milliseconds of a monotonic clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

__all__ = ["ReplicationQuota", "names_replica"]

_ALL = "*"


def names_replica(throttled: Collection[str], partition: int, broker_id: int) -> bool:
    """Returns whether a list of throttled replicas (`partition:broker`, or `*` for all) names this replica."""
    return bool(throttled) and (_ALL in throttled or f"{partition}:{broker_id}" in throttled)


class _Sample:
    """The bytes of one time span."""

    __slots__ = ("last_ms", "size_bytes", "start_ms")

    def __init__(self, start_ms: float) -> None:
        self.start_ms = self.last_ms = start_ms
        self.size_bytes = 0


class ReplicationQuota:
    """The rate of throttled replication in one direction, and its limit.

    The rate is that of the last `samples` time spans of `sample_ms`.
    """

    __slots__ = ("_sample_ms", "_samples", "_span_ms", "limit")

    def __init__(self, limit: int, *, samples: int, sample_ms: int) -> None:
        """Creates a quota without traffic. `limit` is in bytes per second."""
        self.limit = limit
        self._sample_ms = sample_ms
        self._span_ms = samples * sample_ms
        # One sample more, because the oldest one is a part of the span when the newest has begun.
        self._samples: deque[_Sample] = deque(maxlen=samples + 1)

    def record(self, size_bytes: int, now_ms: float) -> None:
        """Counts throttled bytes that were sent or received."""
        self._drop_old(now_ms)
        if not self._samples or now_ms - self._samples[-1].start_ms >= self._sample_ms:
            self._samples.append(_Sample(now_ms))
        newest = self._samples[-1]
        newest.size_bytes += size_bytes
        newest.last_ms = now_ms

    def rate(self, now_ms: float) -> float:
        """Returns the bytes per second."""
        self._drop_old(now_ms)
        if not self._samples:
            return 0.0
        elapsed_ms = max(now_ms - self._samples[0].start_ms, self._sample_ms)
        return sum(sample.size_bytes for sample in self._samples) * 1000 / elapsed_ms

    def is_exceeded(self, now_ms: float) -> bool:
        """Returns whether the rate is above the limit."""
        return self.rate(now_ms) > self.limit

    def _drop_old(self, now_ms: float) -> None:
        while self._samples and now_ms - self._samples[0].last_ms >= self._span_ms:
            self._samples.popleft()

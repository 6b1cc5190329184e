"""Decides for how long a replica does not fetch after a write to its log has failed.

A follower whose disk is full leaves the in-sync replicas. As long as no records arrive, its log ends where the leader's
ends, so the leader would let it join again at its next Fetch, and the next record would make it leave again. Each round
holds up acknowledgements and writes metadata twice. So the follower does not fetch for a while, and for longer each
time: a disk that is almost full takes a record now and then.

Apache Kafka needs no such rule: it takes the whole log directory offline at the first failed write, until the broker
starts again (`LogDirFailureChannel`, `AbstractFetcherThread.markPartitionFailed`).
"""

from __future__ import annotations

from typing import Final

__all__ = ["WritePause"]

_SHORTEST_MS: Final = 1.0
_LONGEST_MS: Final = 10_000.0
_FORGOTTEN_AFTER_MS: Final = 120_000.0


class WritePause:
    """The pauses of one log. Times are milliseconds of a monotonic clock."""

    __slots__ = ("_length_ms", "until_ms")

    def __init__(self) -> None:
        self._length_ms = 0.0
        self.until_ms = 0.0
        """The replica does not fetch before this time."""

    def begin(self, now_ms: float, first_ms: float, *, grows: bool = True) -> None:
        """Begins a pause after a failed write. Does nothing during a pause.

        The first pause lasts `first_ms`. Each later one lasts twice as long as the one before, up to 10 seconds, unless
        `grows` is False or two minutes have passed without a failure.
        """
        if now_ms < self.until_ms:
            return
        if self._length_ms and grows and not self.is_forgotten(now_ms):
            self._length_ms = max(first_ms, min(2 * self._length_ms, _LONGEST_MS))
        else:
            self._length_ms = max(first_ms, _SHORTEST_MS)
        self.until_ms = now_ms + self._length_ms

    def is_forgotten(self, now_ms: float) -> bool:
        """Returns whether the last failure is so long ago that the next pause is a first one."""
        return now_ms >= self.until_ms + _FORGOTTEN_AFTER_MS

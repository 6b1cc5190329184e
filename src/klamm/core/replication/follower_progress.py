"""What a partition's leader knows about one follower: how far it has copied the log, and when it had copied all of it.

A follower tells its progress with its Fetch requests. The fetch offset of a request is the end of the follower's log,
so the follower holds every record below it.

Source: `Replica` and `ReplicaState` of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from klamm.protocol.types import Offset

__all__ = ["NEVER_MS", "UNKNOWN_OFFSET", "FollowerProgress"]

_UNKNOWN_EPOCH: Final = -1
UNKNOWN_OFFSET: Final = Offset(-1)
NEVER_MS: Final = float("-inf")


class FollowerProgress:
    """The progress of one follower in the leader's present epoch.

    Times are milliseconds of a monotonic clock.
    """

    __slots__ = (
        "_fetched_ms",
        "_leader_end_when_fetched",
        "broker_epoch",
        "caught_up_ms",
        "end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_ms: float = NEVER_MS) -> None:
        """Creates the state of a follower that has not fetched in this leader epoch.

        `caught_up_ms`: the time of the election for an in-sync replica, which has a full `replica.lag.time.max.ms` to
        begin to fetch from the new leader.
        """
        self.end_offset = UNKNOWN_OFFSET
        """The follower holds every record below this offset; -1 before its first Fetch."""
        self.log_start_offset = UNKNOWN_OFFSET
        """The log start offset of the follower; -1 before its first Fetch."""
        self.broker_epoch = _UNKNOWN_EPOCH
        """The epoch of the broker's run that fetched last (KIP-903)."""
        self.caught_up_ms = caught_up_ms
        """The latest time at which the follower is known to have held the whole log."""
        self._fetched_ms = NEVER_MS
        self._leader_end_when_fetched = UNKNOWN_OFFSET

    def fetched(
        self, end_offset: Offset, log_start_offset: Offset, leader_end_offset: Offset, broker_epoch: int, now_ms: float
    ) -> None:
        """Records a Fetch of the follower. `leader_end_offset` is the end of the leader's log at that time.

        A follower that reaches the end that the leader had at the previous Fetch was caught up at that time: under
        constant load a follower never reaches the present end.
        """
        if end_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif end_offset >= self._leader_end_when_fetched >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self._fetched_ms)
        self.end_offset = end_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self._fetched_ms = now_ms
        self._leader_end_when_fetched = leader_end_offset

    def leave(self) -> None:
        """Forgets how far the follower has copied the log, because it is not in sync any more. Its next Fetch tells."""
        self.end_offset = UNKNOWN_OFFSET
        self.caught_up_ms = self._fetched_ms = NEVER_MS
        self._leader_end_when_fetched = UNKNOWN_OFFSET

    def is_caught_up(self, leader_end_offset: Offset, now_ms: float, max_lag_ms: float) -> bool:
        """Returns whether the follower holds the whole log, or did within the last `max_lag_ms`."""
        return self.end_offset == leader_end_offset or now_ms - self.caught_up_ms <= max_lag_ms

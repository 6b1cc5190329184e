"""The times of the last signs of life of members, for both protocols.

Each member has two times, because a checker must find both a removal that is too early and a wait that is too long: the
time when its session certainly restarted, and the time when it may have given any sign of life.
"""

from __future__ import annotations

__all__ = ["SLACK_MS", "Sessions"]

SLACK_MS = 2_500
"""The allowed delay of a timer: the queue of alarms wakes twice a second, and slow reads delay it."""


class Sessions:
    """The sessions of one group's members."""

    def __init__(self) -> None:
        self.begin_round(0.0)

    def begin_round(self, now_ms: float) -> None:
        """Starts a new round: another coordinator restarts all timeouts."""
        self._heard_ms: dict[str, float] = {}
        self._seen_ms: dict[str, float] = {}
        self._loaded_ms = self.forgiven_ms = now_ms
        self.left: set[str] = set()
        """Member ids and instance ids that a request removes in this step."""
        self.returning: set[str] = set()
        """The instance ids in `left` with which a process joins a consumer group to replace a static member."""

    def forgive(self, now_ms: float) -> None:
        """Restarts all time limits: the coordinator was stopped, or could not write."""
        self.forgiven_ms = now_ms

    def see(self, member_id: str, at_ms: float) -> None:
        """Records that the coordinator may have heard from the member."""
        self._seen_ms[member_id] = max(at_ms, self._seen_ms.get(member_id, 0.0))

    def hear(self, member_id: str, at_ms: float) -> None:
        """Records that the member's session has restarted."""
        self._heard_ms[member_id] = max(at_ms, self._heard_ms.get(member_id, 0.0))
        self.see(member_id, at_ms)

    def least_silence_ms(self, member_id: str, now_ms: float) -> float:
        """Returns the longest possible time since the last restart of the member's session."""
        return now_ms - max(self._heard_ms.get(member_id, 0.0), self._loaded_ms)

    def certain_silence_ms(self, member_id: str, now_ms: float) -> float:
        """Returns the time in which the coordinator certainly heard nothing from the member."""
        return now_ms - max(self._seen_ms.get(member_id, 0.0), self.forgiven_ms)

    def has_left(self, member_id: str, instance_id: str | None) -> bool:
        """Returns whether a request of this step removes the member."""
        return member_id in self.left or (instance_id is not None and instance_id in self.left)

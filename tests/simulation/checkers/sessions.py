"""When members were heard of, as both protocols need it.

Two times for each member, since a checker must neither see a member gone too early nor waited for too long: when its
session has certainly begun anew, and when it may have been heard of at all.
"""

from __future__ import annotations

__all__ = ["SLACK_MS", "Sessions"]

SLACK_MS = 2_500
"""How much later than it should a timer may run out: the queue of alarms wakes twice a second, and slow reads hold it
up.
"""


class Sessions:
    """The members of one group."""

    def __init__(self) -> None:
        self.begin_round(0.0)

    def begin_round(self, now_ms: float) -> None:
        """Another coordinator gives everybody all their time again."""
        self._heard_ms: dict[str, float] = {}
        self._seen_ms: dict[str, float] = {}
        self._loaded_ms = self.forgiven_ms = now_ms
        self.left: set[str] = set()
        """Member ids and instance ids that some request asks to let go, during a step."""
        self.returning: set[str] = set()
        """Of those, instance ids that somebody joins a consumer group with: that asks for the place of who is away."""

    def forgive(self, now_ms: float) -> None:
        """Nothing was late up to now: the coordinator stood still, or could not write."""
        self.forgiven_ms = now_ms

    def see(self, member_id: str, at_ms: float) -> None:
        """The member may have been heard of."""
        self._seen_ms[member_id] = max(at_ms, self._seen_ms.get(member_id, 0.0))

    def hear(self, member_id: str, at_ms: float) -> None:
        """The member's session has begun anew."""
        self._heard_ms[member_id] = max(at_ms, self._heard_ms.get(member_id, 0.0))
        self.see(member_id, at_ms)

    def least_silence_ms(self, member_id: str, now_ms: float) -> float:
        """For how long the member's session has not begun anew, at most: if it is shorter, it has not run out."""
        return now_ms - max(self._heard_ms.get(member_id, 0.0), self._loaded_ms)

    def certain_silence_ms(self, member_id: str, now_ms: float) -> float:
        """For how long nobody can have heard of the member."""
        return now_ms - max(self._seen_ms.get(member_id, 0.0), self.forgiven_ms)

    def has_left(self, member_id: str, instance_id: str | None) -> bool:
        """Whether somebody asks to let the member go, in this step."""
        return member_id in self.left or (instance_id is not None and instance_id in self.left)

"""When there is something to say about a coordinator that can't be had, and how often."""

from __future__ import annotations

from typing import Final

__all__ = ["CoordinatorTrouble"]

_REMINDER_S: Final = 60.0


class CoordinatorTrouble:
    """What has been said so far; whoever asks brings the time, and says it."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._told_at_s: dict[str, float] = {}

    def meet(self, trouble: str, now_s: float) -> bool:
        """Whether to speak of this trouble: it is new since all was well, or was last spoken of a minute ago.

        Two that take turns, as when one broker names a coordinator that another can't reach, are told of once a minute
        each.
        """
        if self._since_s is None:
            self._since_s = now_s
        told_at_s = self._told_at_s.get(trouble)
        if told_at_s is not None and now_s < told_at_s + _REMINDER_S:
            return False
        self._told_at_s[trouble] = now_s
        return True

    def end(self, now_s: float) -> float | None:
        """All is well: how many seconds it was not, or None if it was before."""
        since_s, self._since_s = self._since_s, None
        self._told_at_s.clear()
        return None if since_s is None else now_s - since_s

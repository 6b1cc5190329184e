"""Limits how often warnings about an unreachable coordinator are logged."""

from __future__ import annotations

from typing import Final

__all__ = ["CoordinatorTrouble"]

_REMINDER_S: Final = 60.0


class CoordinatorTrouble:
    """The troubles reported so far. The caller passes the time and logs the warning."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._told_at_s: dict[str, float] = {}

    def meet(self, trouble: str, now_s: float) -> bool:
        """Returns whether to report this trouble: it is new since the last success, or its last report was a minute
        ago.

        Two alternating troubles are each reported once a minute, for example a broker that names a coordinator which
        can't be reached.
        """
        if self._since_s is None:
            self._since_s = now_s
        told_at_s = self._told_at_s.get(trouble)
        if told_at_s is not None and now_s < told_at_s + _REMINDER_S:
            return False
        self._told_at_s[trouble] = now_s
        return True

    def end(self, now_s: float) -> float | None:
        """Ends the trouble after a success. Returns how many seconds it lasted, or None if there was none."""
        since_s, self._since_s = self._since_s, None
        self._told_at_s.clear()
        return None if since_s is None else now_s - since_s

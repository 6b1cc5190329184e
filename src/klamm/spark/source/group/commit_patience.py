"""Limits how long a commit may delay a query while the coordinator is unreachable."""

from __future__ import annotations

from typing import Final

__all__ = ["FULL_PATIENCE_S", "CommitPatience"]

FULL_PATIENCE_S: Final = 10.0
"""The limit while the coordinator is reachable, and at the end of a query: long enough for a coordinator to move."""
_FIRST_REST_S: Final = 1.0
_LONGEST_REST_S: Final = 60.0
# The share of the time since the last failure that a commit may take, and so the most that a query loses to an
# unreachable coordinator. A slow coordinator gets longer each time, up to six seconds and more.
_SHARE: Final = 0.1


class CommitPatience:
    """The back-off after failed commits. The caller passes the time."""

    def __init__(self) -> None:
        self._failed_at_s: float | None = None
        self._rest_s = 0.0
        self._has_waited_at_the_end = False

    def left_s(self, now_s: float, *, is_last: bool = False) -> float:
        """Returns how long a commit may take now; 0 if it must not be tried.

        The last commit gets the full time, but only once: Spark may ask again if the query has other sources that
        continue.
        """
        if is_last and not self._has_waited_at_the_end:
            self._has_waited_at_the_end = True
            return FULL_PATIENCE_S
        if self._failed_at_s is None:
            return FULL_PATIENCE_S
        rested_s = now_s - self._failed_at_s
        return min(FULL_PATIENCE_S, rested_s * _SHARE) if rested_s >= self._rest_s else 0.0

    def failed(self, now_s: float) -> None:
        """Notes that the coordinator did not respond in time."""
        self._failed_at_s = now_s
        self._rest_s = min(_LONGEST_REST_S, max(_FIRST_REST_S, self._rest_s * 2))

    def succeeded(self) -> None:
        """Notes that the coordinator responded."""
        self._failed_at_s = None
        self._rest_s = 0.0

"""How long a commit may keep a query waiting for a coordinator that may not be there."""

from __future__ import annotations

from typing import Final

__all__ = ["FULL_PATIENCE_S", "CommitPatience"]

FULL_PATIENCE_S: Final = 10.0
"""As long as nothing is known against the coordinator, and at the end: long enough for one that moves."""
_FIRST_REST_S: Final = 1.0
_LONGEST_REST_S: Final = 60.0
# Of the time since the last try, so that a query never loses more of its time than this to a coordinator that is away.
# It also gives a slow coordinator longer each time, up to six seconds and more.
_SHARE: Final = 0.1


class CommitPatience:
    """What the commits so far have taught; whoever asks brings the time."""

    def __init__(self) -> None:
        self._failed_at_s: float | None = None
        self._rest_s = 0.0
        self._has_waited_at_the_end = False

    def left_s(self, now_s: float, *, is_last: bool = False) -> float:
        """How long a commit may take now; 0 if it is not to be tried.

        The last one gets full patience, once: Spark may ask again where a query has other sources that go on.
        """
        if is_last and not self._has_waited_at_the_end:
            self._has_waited_at_the_end = True
            return FULL_PATIENCE_S
        if self._failed_at_s is None:
            return FULL_PATIENCE_S
        rested_s = now_s - self._failed_at_s
        return min(FULL_PATIENCE_S, rested_s * _SHARE) if rested_s >= self._rest_s else 0.0

    def failed(self, now_s: float) -> None:
        """The coordinator was not there in time."""
        self._failed_at_s = now_s
        self._rest_s = min(_LONGEST_REST_S, max(_FIRST_REST_S, self._rest_s * 2))

    def succeeded(self) -> None:
        """It is there."""
        self._failed_at_s = None
        self._rest_s = 0.0

"""A consumer's fetch sessions (KIP-227): the broker remembers the requested partitions and returns what has changed.

A session takes a slot in the broker's cache. Most streams end with their first response, so a stream begins without a
session; it opens one with its second request and closes it at its end.
Source of the rules: `FetchSessionHandler` of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from klamm.protocol.errors import ErrorCode

__all__ = ["FetchSession", "SessionPlace"]

_NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1
_HIGHEST_EPOCH: Final = 2**31 - 1
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class SessionPlace(NamedTuple):
    """The session id and epoch of a request."""

    session_id: int
    epoch: int

    @property
    def is_incremental(self) -> bool:
        """Whether the response leaves out partitions that have not changed."""
        return self.session_id != _NO_SESSION and self.epoch != _FINAL_EPOCH


WITHOUT_SESSION: Final = SessionPlace(_NO_SESSION, _FINAL_EPOCH)


class FetchSession:
    """The session of one stream with one connection."""

    def __init__(self) -> None:
        self._session_id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._requests = 0

    def next_place(self) -> SessionPlace:
        """Returns the place of the next request: without a session for the first request, then in a session."""
        self._requests += 1
        return WITHOUT_SESSION if self._requests == 1 else SessionPlace(self._session_id, self._epoch)

    def answered(self, place: SessionPlace, code: ErrorCode, session_id: int) -> bool:
        """Updates the session after a response. Returns whether its error only requires a new session."""
        if place == WITHOUT_SESSION:
            return False
        if code in _SESSION_ERRORS:
            self._session_id, self._epoch = _NO_SESSION, _INITIAL_EPOCH
            return True
        if code is ErrorCode.NONE:
            # A broker whose cache is full gives no session; each further request asks for one again, as in Kafka.
            self._session_id = session_id
            opened = session_id != _NO_SESSION
            self._epoch = place.epoch % _HIGHEST_EPOCH + 1 if opened else _INITIAL_EPOCH
        return False

    def closing_place(self) -> SessionPlace | None:
        """Returns the place of a request that closes the session; None if there is none."""
        return SessionPlace(self._session_id, _FINAL_EPOCH) if self._session_id != _NO_SESSION else None

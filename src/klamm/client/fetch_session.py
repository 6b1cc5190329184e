"""Fetch sessions as a consumer keeps them (KIP-227): the broker remembers what is asked for, and answers what changed.

A session takes a place in the broker's cache. So a stream begins without one, since most end with their first answer;
from its second request on it has a session, which it closes when it ends.
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
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
        ErrorCode.inconsistent_topic_id,
    }
)


class SessionPlace(NamedTuple):
    """What a request says of its session."""

    session_id: int
    epoch: int

    @property
    def is_incremental(self) -> bool:
        """Whether the answer leaves out what has not changed."""
        return self.session_id != _NO_SESSION and self.epoch != _FINAL_EPOCH


WITHOUT_SESSION: Final = SessionPlace(_NO_SESSION, _FINAL_EPOCH)


class FetchSession:
    """The session of one stream with one connection."""

    def __init__(self) -> None:
        self._session_id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._requests = 0

    def next_place(self) -> SessionPlace:
        """Where in the session the next request stands: none at first, then one that opens it."""
        self._requests += 1
        return WITHOUT_SESSION if self._requests == 1 else SessionPlace(self._session_id, self._epoch)

    def answered(self, place: SessionPlace, code: ErrorCode, session_id: int) -> bool:
        """Notes an answer; whether its error only means that a new session has to be opened."""
        if place == WITHOUT_SESSION:
            return False
        if code in _SESSION_ERRORS:
            self._session_id, self._epoch = _NO_SESSION, _INITIAL_EPOCH
            return True
        if code is ErrorCode.none:
            # A broker whose cache is full gives no session; then each request is one that asks for it, as in Kafka.
            self._session_id = session_id
            opened = session_id != _NO_SESSION
            self._epoch = place.epoch % _HIGHEST_EPOCH + 1 if opened else _INITIAL_EPOCH
        return False

    def closing_place(self) -> SessionPlace | None:
        """What closes the session; None if there is none."""
        return SessionPlace(self._session_id, _FINAL_EPOCH) if self._session_id != _NO_SESSION else None

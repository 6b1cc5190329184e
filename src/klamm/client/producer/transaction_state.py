"""The states of a transactional producer and the transitions between them.

Source: `TransactionManager.State` of Apache Kafka 4.3.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

__all__ = ["TRANSITIONS", "TransactionState"]


class TransactionState(Enum):
    """What a transactional producer may do. An idempotent producer has UNINITIALIZED, INITIALIZING, READY and
    FATAL_ERROR."""

    UNINITIALIZED = auto()
    """Has no producer id."""
    INITIALIZING = auto()
    """Waits for a producer id, or for a new epoch."""
    READY = auto()
    """May begin a transaction."""
    IN_TRANSACTION = auto()
    COMMITTING = auto()
    ABORTING = auto()
    ABORTABLE_ERROR = auto()
    """The transaction has failed; it can only be aborted."""
    FATAL_ERROR = auto()
    """The producer can't be used any more."""


_S = TransactionState

TRANSITIONS: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING, _S.FATAL_ERROR}),
    _S.INITIALIZING: frozenset({_S.READY, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset({_S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.COMMITTING: frozenset({_S.READY, _S.INITIALIZING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.READY, _S.INITIALIZING, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset(),
}
"""The states that may follow each state."""

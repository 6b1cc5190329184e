"""The states of a transactional id, and the allowed transitions.

After Apache Kafka's `TransactionState`. Two of its states are never written by klamm: Dead (an expired id gets a
tombstone, which removes it) and PrepareEpochFence (fencing a producer writes PrepareAbort at once).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

__all__ = ["ENDING", "EXPIRABLE", "PREVIOUS", "STATE_NAMES", "TransactionState"]


class TransactionState(IntEnum):
    """The state of a transactional id; the values are those in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


STATE_NAMES: Final[Mapping[TransactionState, str]] = MappingProxyType(
    {
        TransactionState.EMPTY: "Empty",
        TransactionState.ONGOING: "Ongoing",
        TransactionState.PREPARE_COMMIT: "PrepareCommit",
        TransactionState.PREPARE_ABORT: "PrepareAbort",
        TransactionState.COMPLETE_COMMIT: "CompleteCommit",
        TransactionState.COMPLETE_ABORT: "CompleteAbort",
        TransactionState.DEAD: "Dead",
        TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
    }
)
"""The names in responses and in filters."""

ENDING: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The outcome is final and the markers are being written; until they are, no other change is allowed."""

EXPIRABLE: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""No transaction is open: the id may expire, be initialized again, or begin a transaction."""

PREVIOUS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = MappingProxyType(
    {
        TransactionState.EMPTY: EXPIRABLE,
        TransactionState.ONGOING: EXPIRABLE | {TransactionState.ONGOING},
        TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
        # With transaction version 2, a client in doubt may abort a transaction that has not begun (KIP-890).
        TransactionState.PREPARE_ABORT: EXPIRABLE | {TransactionState.ONGOING},
        TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
        TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    }
)
"""The allowed previous states of each state that is written."""

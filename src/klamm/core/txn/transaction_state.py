"""The states of a transactional id, and which may follow which.

After Apache Kafka's `TransactionState`. Two of its states are never written by klamm: Dead (an expired id gets a
tombstone, which removes it) and PrepareEpochFence (whoever fences a producer writes PrepareAbort at once).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

__all__ = ["ENDING", "EXPIRABLE", "PREVIOUS", "STATE_NAMES", "TransactionState"]


class TransactionState(IntEnum):
    """The values are those of the log."""

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
"""The names that clients see, and filter by."""

ENDING: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""The outcome is settled, and its markers are being written: nothing else may happen until they are."""

EXPIRABLE: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""No transaction is open: the id may be forgotten, initialized anew, or begin a transaction."""

PREVIOUS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = MappingProxyType(
    {
        TransactionState.EMPTY: EXPIRABLE,
        TransactionState.ONGOING: EXPIRABLE | {TransactionState.ONGOING},
        TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
        # With transaction version 2 a client that is unsure may abort what has not begun (KIP-890).
        TransactionState.PREPARE_ABORT: EXPIRABLE | {TransactionState.ONGOING},
        TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
        TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    }
)
"""Which states may come before each that is written."""

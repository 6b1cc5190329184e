"""The states of a transactional producer and the transitions between them.

Source: `TransactionManager.State` of Apache Kafka 4.3.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from klamm.client.producer.batch import NO_IDENTITY
from klamm.client.producer.errors import InvalidTransactionCall, TransactionAborted, TransactionMustAbort

__all__ = ["TRANSITIONS", "ProducerState", "TransactionState"]


class TransactionState(Enum):
    """The state of a transactional producer. An idempotent producer has only UNINITIALIZED, INITIALIZING, READY and
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


class ProducerState:
    """The state of a producer, and the errors for calls that it does not allow."""

    def __init__(self, transactional_id: str | None) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.UNINITIALIZED
        self.error: Exception | None = None
        """Why the transaction, or the producer, has failed."""
        self.identity = NO_IDENTITY

    @property
    def is_transactional(self) -> bool:
        """Whether there is a transactional id."""
        return self.transactional_id is not None

    @property
    def has_failed(self) -> bool:
        """Whether the producer can't be used any more."""
        return self.state is _S.FATAL_ERROR

    @property
    def is_ending_badly(self) -> bool:
        """Whether the transaction can't be committed any more, so that no more of its records are sent."""
        return self.state in (_S.ABORTING, _S.ABORTABLE_ERROR)

    def check_send(self) -> None:
        """Raises the error for a record that may not be sent in the present state."""
        if self.state is _S.FATAL_ERROR:
            raise self.failure()
        if self.is_transactional and self.state is not _S.IN_TRANSACTION:
            raise self.misuse("send a record")

    def become(self, state: TransactionState) -> None:
        """Changes the state."""
        assert state in TRANSITIONS[self.state], f"{self.state} to {state}"
        self.state = state

    def unavailable(self) -> Exception:
        """Returns the error for records that are dropped because the producer has failed, or its transaction has failed
        or is aborted."""
        return self.error or TransactionAborted("the transaction was aborted before that was acknowledged")

    def failure(self) -> Exception:
        """Returns why the producer can't be used any more."""
        assert self.error is not None
        return self.error

    def require_transactional(self) -> None:
        """Raises `InvalidTransactionCall` if there is no transactional id."""
        if not self.is_transactional:
            raise InvalidTransactionCall("the producer has no transactional.id: set one to use transactions")

    def misuse(self, doing: str) -> Exception:
        """Returns the error for a call that the present state does not allow; `doing` names the call."""
        if self.state is _S.ABORTABLE_ERROR:
            assert self.error is not None
            error = TransactionMustAbort(str(self.error))
            error.__cause__ = self.error.__cause__
            return error
        if self.state is _S.UNINITIALIZED and self.identity == NO_IDENTITY:
            return InvalidTransactionCall(f"can't {doing} before init_transactions")
        return InvalidTransactionCall(f"can't {doing}: the producer is in the state {self.state.name}")

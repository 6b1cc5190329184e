"""The coordinator's state of one transactional id, and the steps that change it.

A step is a function from a `Transaction` to the next one; objects never change. After Apache Kafka's
`TransactionMetadata` and its `prepare…` methods.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from klamm.core.txn.transaction_state import ENDING, PREVIOUS, TransactionState
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, ProducerEpoch, ProducerId, TopicPartition

__all__ = [
    "EPOCH_BUMP_VERSION",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "Transaction",
    "added",
    "bumped",
    "completed",
    "ended",
    "first",
    "is_epoch_exhausted",
    "rotated",
]

NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
_FIRST_EPOCH: Final = ProducerEpoch(0)
_HIGHEST_EPOCH: Final = ProducerEpoch(32_767)
_NO_TIMESTAMP: Final = Millis(-1)
_NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()

EPOCH_BUMP_VERSION: Final = 2
"""From this transaction version on, each transaction has its own epoch (KIP-890)."""
_ORIGINAL_VERSION: Final = 0
_NO_TIMEOUT_MS: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of one transactional id. Times are in milliseconds since the epoch, -1 for none."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    start_timestamp: Millis
    last_update_timestamp: Millis
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    """The producer id before the latest step; different only after the epochs of an id were used up."""
    next_producer_id: ProducerId = NO_PRODUCER_ID
    """The producer id after the end of this transaction, if the epochs of the present id are used up."""
    client_transaction_version: int = _ORIGINAL_VERSION
    last_producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    """The epoch before the latest bump that the producer itself requested. It is not in the log, so a retry of
    InitProducerId after a restart fails, as with Kafka."""

    @property
    def is_ending(self) -> bool:
        """Whether the markers are being written, so that other requests have to wait."""
        return self.state in ENDING

    @property
    def is_commit(self) -> bool:
        """Whether an ending transaction is committed; False if it is aborted."""
        return self.state is TransactionState.PREPARE_COMMIT

    def is_timed_out(self, now: Millis) -> bool:
        """Returns whether the transaction exceeds its timeout. The largest timeout means no timeout."""
        return (
            self.state is TransactionState.ONGOING
            and self.timeout_ms != _NO_TIMEOUT_MS
            and self.start_timestamp + self.timeout_ms < now
        )


def is_epoch_exhausted(epoch: int) -> bool:
    """Returns whether a producer cannot get a later epoch; the highest epoch is reserved for fencing."""
    return epoch >= _HIGHEST_EPOCH - 1


def first(transactional_id: str, producer_id: ProducerId, timeout_ms: int, now: Millis) -> Transaction:
    """Returns the state of a new transactional id."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=_FIRST_EPOCH,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=_NO_PARTITIONS,
        start_timestamp=_NO_TIMESTAMP,
        last_update_timestamp=now,
        previous_producer_id=producer_id,
    )


def bumped(transaction: Transaction, timeout_ms: int, expected_epoch: int | None, now: Millis) -> Transaction:
    """Returns the state with the producer's next epoch, which fences producers with earlier epochs.

    A producer that sends its epoch (KIP-360) must send the current one. If it sends the previous one, the request is a
    retry, and the epoch stays. Raises PRODUCER_FENCED.
    """
    epoch, last_epoch = ProducerEpoch(transaction.producer_epoch + 1), NO_PRODUCER_EPOCH
    if expected_epoch is not None:
        if expected_epoch == transaction.producer_epoch:
            last_epoch = transaction.producer_epoch
        elif expected_epoch == transaction.last_producer_epoch:
            epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
        else:
            raise KafkaError(
                ErrorCode.PRODUCER_FENCED,
                f"the epoch of {transaction.transactional_id} is {transaction.producer_epoch}, not {expected_epoch}",
            )
    return _empty(transaction, transaction.producer_id, epoch, last_epoch, timeout_ms=timeout_ms, now=now)


def rotated(
    transaction: Transaction, producer_id: ProducerId, timeout_ms: int, *, is_asked_by_producer: bool, now: Millis
) -> Transaction:
    """Returns the state with a new producer id, because the epochs of the old one are used up."""
    last_epoch = transaction.producer_epoch if is_asked_by_producer else NO_PRODUCER_EPOCH
    return _empty(transaction, producer_id, _FIRST_EPOCH, last_epoch, timeout_ms=timeout_ms, now=now)


def added(
    transaction: Transaction, partitions: Iterable[TopicPartition], transaction_version: int, now: Millis
) -> Transaction:
    """Returns the transaction with more partitions; the first ones begin it."""
    is_open = transaction.state is TransactionState.ONGOING
    return replace(
        transaction,
        state=_next(transaction, TransactionState.ONGOING),
        previous_producer_id=transaction.producer_id,
        partitions=transaction.partitions.union(partitions),
        start_timestamp=transaction.start_timestamp if is_open else now,
        last_update_timestamp=now,
        client_transaction_version=transaction_version,
    )


def ended(
    transaction: Transaction,
    *,
    is_commit: bool,
    transaction_version: int,
    next_producer_id: ProducerId,
    now: Millis,
) -> Transaction:
    """Returns the transaction with its final outcome, in the Prepare state.

    From transaction version 2 on, the epoch is bumped, so that partitions refuse writes in flight with the old epoch.
    `next_producer_id` is set if the epochs of the present id are used up.
    """
    epoch, last_epoch = transaction.producer_epoch, transaction.last_producer_epoch
    if transaction_version >= EPOCH_BUMP_VERSION:
        last_epoch = epoch
        if epoch < _HIGHEST_EPOCH:
            epoch = ProducerEpoch(epoch + 1)
        elif is_commit:
            # No client reaches this epoch. An abort is allowed, so that the id becomes usable again.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the producer's epochs are used up")
    state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
    return replace(
        transaction,
        state=_next(transaction, state),
        previous_producer_id=transaction.producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        next_producer_id=next_producer_id,
        # A transaction that has not begun may be aborted; then it begins and ends at the same time.
        start_timestamp=transaction.start_timestamp if transaction.state is TransactionState.ONGOING else now,
        last_update_timestamp=now,
        client_transaction_version=transaction_version,
    )


def completed(transaction: Transaction, now: Millis) -> Transaction:
    """Returns the transaction as complete. A producer whose epochs are used up gets its next id now."""
    producer_id, epoch = transaction.producer_id, transaction.producer_epoch
    if transaction.client_transaction_version >= EPOCH_BUMP_VERSION and transaction.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = transaction.next_producer_id, _FIRST_EPOCH
    state = TransactionState.COMPLETE_COMMIT if transaction.is_commit else TransactionState.COMPLETE_ABORT
    return replace(
        transaction,
        state=_next(transaction, state),
        previous_producer_id=transaction.producer_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        next_producer_id=NO_PRODUCER_ID,
        partitions=_NO_PARTITIONS,
        last_update_timestamp=now,
    )


def _empty(
    transaction: Transaction,
    producer_id: ProducerId,
    epoch: ProducerEpoch,
    last_epoch: ProducerEpoch,
    *,
    timeout_ms: int,
    now: Millis,
) -> Transaction:
    return replace(
        transaction,
        state=_next(transaction, TransactionState.EMPTY),
        previous_producer_id=transaction.producer_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        timeout_ms=timeout_ms,
        partitions=_NO_PARTITIONS,
        start_timestamp=_NO_TIMESTAMP,
        last_update_timestamp=now,
    )


def _next(transaction: Transaction, state: TransactionState) -> TransactionState:
    assert transaction.state in PREVIOUS[state], f"{transaction.state.name} is not followed by {state.name}"
    return state

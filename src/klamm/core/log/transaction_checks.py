"""The checks of a leader for the batches of a transaction, and for the marker that ends it.

Source: `storage/internals/log/ProducerAppendInfo.java` and `UnifiedLog.analyzeAndValidateProducerState` of Apache
Kafka 4.3 (KIP-98, KIP-890, KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.protocol.control_batch import EndTransactionMarker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import NO_PRODUCER_EPOCH, BatchHeader
from klamm.protocol.types import ProducerEpoch

if TYPE_CHECKING:
    from klamm.core.log.producer_entry import ProducerEntry
    from klamm.core.log.transaction_verification import Verification

__all__ = ["check_epoch", "check_first_of_transaction", "check_marker", "check_sequence_of_verified"]

_EPOCH_PER_TRANSACTION: Final = 2
"""From this transaction version on, each transaction has its own epoch."""
_HIGHEST_EPOCH: Final = 2**15 - 1


def check_epoch(entry: ProducerEntry | None, producer_id: int, epoch: int) -> None:
    """Refuses an old epoch. Raises `KafkaError` INVALID_PRODUCER_EPOCH."""
    if entry is not None and epoch < entry.epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch of producer {producer_id} is {epoch}, which is smaller than the last seen epoch {entry.epoch}",
        )


def check_first_of_transaction(entry: ProducerEntry | None, header: BatchHeader, *, is_verified: bool) -> None:
    """Refuses the first batch of a transaction in this log if the transaction coordinator did not verify it.

    Raises `KafkaError`: INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE.
    """
    check_epoch(entry, header.producer_id, header.producer_epoch)
    if not is_verified:
        raise KafkaError(ErrorCode.INVALID_TXN_STATE, "the records were not part of an ongoing transaction")


def check_sequence_of_verified(
    entry: ProducerEntry | None, header: BatchHeader, verification: Verification | None
) -> None:
    """Refuses a batch that overtook an earlier batch of its producer.

    Raises `KafkaError` OUT_OF_ORDER_SEQUENCE_NUMBER.
    """
    if verification is None:
        return
    sequence = header.base_sequence
    is_known = entry is not None and bool(entry.batches)
    if verification.adds_partitions and sequence != 0 and not is_known:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"invalid sequence number for producer {header.producer_id}: {sequence} (incoming), 0 is expected of a "
            f"producer under transaction version 2 of which nothing is known",
        )
    if sequence > verification.lowest_sequence:
        raise KafkaError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"out of order sequence number for producer {header.producer_id}: {sequence} (incoming), "
            f"{verification.lowest_sequence} (earliest seen sequence)",
        )


def check_marker(
    entry: ProducerEntry | None,
    producer_id: int,
    epoch: ProducerEpoch,
    marker: EndTransactionMarker,
    transaction_version: int,
) -> None:
    """Refuses a marker with an old producer epoch or coordinator epoch.

    Under transaction version 2, a marker has a higher epoch than the records of its transaction. A marker with the same
    epoch is a repetition. It does no harm if no transaction is open; otherwise it belongs to an earlier transaction and
    is refused. The highest possible epoch is accepted nevertheless, because no higher one exists.
    Raises `KafkaError`: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
    """
    current = entry.epoch if entry is not None else NO_PRODUCER_EPOCH
    is_old = epoch < current
    if transaction_version >= _EPOCH_PER_TRANSACTION and epoch == current:
        is_open = entry is not None and entry.current_transaction_first_offset >= 0
        is_old = is_open and epoch != _HIGHEST_EPOCH
    if is_old:
        comparison = "<=" if transaction_version >= _EPOCH_PER_TRANSACTION else "<"
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch of producer {producer_id} is {epoch}, which is {comparison} the last seen epoch {current} "
            f"(transaction version {transaction_version})",
        )
    if entry is not None and entry.coordinator_epoch > marker.coordinator_epoch:
        raise KafkaError(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"invalid coordinator epoch for producer {producer_id}: {marker.coordinator_epoch} (zombie), "
            f"{entry.coordinator_epoch} (current)",
        )

"""The errors of a producer. Each text says what happened to the records and what the caller can do."""

from __future__ import annotations

from klamm.client.errors import GaveUp, RequestRefused
from klamm.errors import KlammError
from klamm.protocol.errors import ErrorCode

__all__ = [
    "BufferFull",
    "DeliveryRefused",
    "DeliveryTimedOut",
    "InvalidTransactionCall",
    "ProducerClosed",
    "ProducerFailed",
    "ProducerFenced",
    "RecordTooLarge",
    "TransactionAborted",
    "TransactionMustAbort",
]


class BufferFull(GaveUp):
    """`buffer.memory` stayed full for `max.block.ms`. The record or batch was not accepted."""


class RecordTooLarge(KlammError):
    """A record or batch is larger than `max.request.size` or `buffer.memory`. It was not accepted."""


class DeliveryRefused(RequestRefused):
    """A broker refused the batch with an error that a retry does not change. Its records are not in the log, unless
    the text says that an earlier attempt may have been written."""


class DeliveryTimedOut(GaveUp):
    """The batch was not acknowledged within `delivery.timeout.ms`. The text says whether an attempt may have been
    written."""


class ProducerClosed(KlammError):
    """The producer is closed. The call came too late, or the records were not acknowledged in time: those that were
    sent may be in the log."""


class InvalidTransactionCall(KlammError):
    """A method was called in a state of the transaction that does not allow it, for example a commit without a
    begin."""


class TransactionAborted(KlammError):
    """The transaction of the record or operation is aborted."""


class TransactionMustAbort(KlammError):
    """The transaction has failed and can't be committed. Abort it; the next transaction may begin then."""


class ProducerFailed(KlammError):
    """The producer can't be used any more after this error: close it and create another one."""


class ProducerFenced(ProducerFailed, RequestRefused):
    """Another producer has initialized the same transactional id. The open transaction is aborted by the
    coordinator."""

    def __init__(self, transactional_id: str | None) -> None:
        RequestRefused.__init__(
            self,
            ErrorCode.PRODUCER_FENCED,
            f"another producer with transactional.id={transactional_id!r} has taken over, or the coordinator aborted "
            "the transaction after transaction.timeout.ms; close this producer",
        )

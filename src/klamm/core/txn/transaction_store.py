"""The durable state of a transaction shard: the state of each transactional id in the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from klamm.core.coordinator.shard_contract import CoordinatorRecord, Result
from klamm.core.txn.transaction import Transaction
from klamm.core.txn.transaction_records import transaction_of, transaction_record
from klamm.core.txn.transaction_state import TransactionState
from klamm.protocol.schema.transaction_log_key import TransactionLogKey
from klamm.protocol.schema.transaction_log_value import TransactionLogValue
from klamm.protocol.types import ProducerEpoch

__all__ = ["TransactionStore"]


class TransactionStore:
    """The transactional ids of one partition. Only `replay` changes their durable state."""

    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        self.ongoing: dict[str, None] = {}
        """The ids with an open transaction, which may time out, in the order of their beginning."""

    def find(self, transactional_id: str) -> Transaction | None:
        """Returns the state of the transactional id, or None."""
        return self.transactions.get(transactional_id)

    def replay(self, record: CoordinatorRecord) -> None:
        """Applies one record."""
        assert isinstance(record.key, TransactionLogKey)
        transactional_id = record.key.transactional_id
        if record.value is None:
            self.transactions.pop(transactional_id, None)
            self.ongoing.pop(transactional_id, None)
            return
        assert isinstance(record.value, TransactionLogValue)
        transaction = transaction_of(transactional_id, record.value)
        self.transactions[transactional_id] = transaction
        if transaction.state is TransactionState.ONGOING:
            self.ongoing.setdefault(transactional_id)
        else:
            self.ongoing.pop(transactional_id, None)

    def write(self, transactions: Iterable[Transaction], result: Result) -> None:
        """Adds the transactions' records to the result."""
        last_epochs: list[tuple[str, ProducerEpoch]] = []
        for transaction in transactions:
            result.records.append(transaction_record(transaction))
            last_epochs.append((transaction.transactional_id, transaction.last_producer_epoch))

        def note_last_epochs() -> None:
            # The records don't contain the last epochs, so they are restored after the replay of the append.
            for transactional_id, epoch in last_epochs:
                written = self.transactions[transactional_id]
                self.transactions[transactional_id] = replace(written, last_producer_epoch=epoch)

        result.on_append = note_last_epochs

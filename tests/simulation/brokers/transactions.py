"""The outcome of each transaction as its producer knows it, and what other clients have seen of the transaction.

A transaction writes records, and may commit its own number as the offset of some partitions of its producer's group. So
a client that reads the offset knows which transaction was the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tests.simulation.brokers.model import Batch, Model
from tests.simulation.violation import Violation

from klamm.protocol.types import TopicPartition

__all__ = ["Outcome", "Transaction", "Transactions"]


class Outcome(Enum):
    """The outcome of a transaction, as far as its producer knows."""

    OPEN = "open"
    ABORTED = "aborted"
    IN_DOUBT = "in doubt"
    """The producer asked for a commit, and got no answer."""
    COMMITTED = "committed"


class Transaction:
    """One transaction."""

    def __init__(self, number: int, group_id: str, began_ms: float, version: int) -> None:
        self.number = number
        self.version = version
        """The transaction version of its producer."""
        self.began_ms = began_ms
        self.group_id = group_id
        self.batches: list[Batch] = []
        self.offsets: list[TopicPartition] = []
        """The partitions whose offset the transaction commits."""
        self.outcome = Outcome.OPEN
        self.ended: tuple[int, float] | None = None
        """The life and the time in which the producer learned that the transaction has ended."""
        self.may_be_fenced = False
        """Whether a delayed request of its producer may abort the transaction."""
        self.is_seen = False
        """Whether a client has seen that the transaction was committed."""

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.group_id}"


class Transactions:
    """All transactions of the world."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._by_number: dict[int, Transaction] = {}
        self.groups: dict[str, set[TopicPartition]] = {}
        """The groups of transactional producers, and the partitions with committed offsets."""
        self._offsets: dict[tuple[str, TopicPartition], int] = {}
        """The last offset that a client has seen."""

    def begin(self, group_id: str, now_ms: float, version: int) -> Transaction:
        """Adds the transaction that a producer begins."""
        transaction = Transaction(len(self._by_number) + 1, group_id, now_ms, version)
        self._by_number[transaction.number] = transaction
        return transaction

    def get(self, number: int) -> Transaction | None:
        """Returns the transaction with a number; None if no producer has begun it."""
        return self._by_number.get(number)

    def commits_offset(self, transaction: Transaction, where: TopicPartition) -> None:
        """Records that a transaction is about to commit an offset."""
        transaction.offsets.append(where)
        self.groups.setdefault(transaction.group_id, set()).add(where)

    def shown(self, where: TopicPartition, offset: int, value: bytes) -> None:
        """Checks a record that a reader of committed records got (I11)."""
        transaction = self._model.partitions[where].of_value[value].transaction
        if transaction is not None:
            self._see(transaction, 11, f"{value!r} at offset {offset} of {where}")

    def offset_shown(self, group_id: str, where: TopicPartition, offset: int) -> None:
        """Checks the committed offset that a client fetched for a transactional group (I12, I17)."""
        last = self._offsets.get((group_id, where), 0)
        if offset < last:
            raise Violation(17, f"{group_id} has {offset} for {where}, and had {last}")
        self._offsets[group_id, where] = offset
        if offset == 0:
            return
        transaction = self._by_number.get(offset)
        if transaction is None or where not in transaction.offsets or transaction.group_id != group_id:
            raise Violation(17, f"{group_id} has {offset} for {where}, which nobody has committed there")
        self._see(transaction, 12, f"its offset of {where}")

    def _see(self, transaction: Transaction, invariant: int, what: str) -> None:
        if transaction.outcome in (Outcome.OPEN, Outcome.ABORTED):
            raise Violation(invariant, f"{what} is shown, and {transaction} is {transaction.outcome.value}")
        transaction.is_seen = True

    def settle(self) -> None:
        """Decides the transactions in doubt: a transaction was committed if a client has seen a part of it. No
        transaction is open at this time.
        """
        for transaction in self._by_number.values():
            if transaction.outcome is Outcome.IN_DOUBT:
                transaction.outcome = Outcome.COMMITTED if transaction.is_seen else Outcome.ABORTED

    def check_offsets(self, found: Mapping[tuple[str, TopicPartition], int]) -> None:
        """Checks at the end that each group has the number of its last committed transaction (I12, I17)."""
        for group_id, partitions in self.groups.items():
            for where in partitions:
                last = max(
                    (
                        transaction.number
                        for transaction in self._by_number.values()
                        if transaction.outcome is Outcome.COMMITTED
                        and transaction.group_id == group_id
                        and where in transaction.offsets
                    ),
                    default=0,
                )
                if found.get((group_id, where), 0) != last:
                    raise Violation(
                        12, f"{group_id} has {found.get((group_id, where), 0)} for {where}, and its last one is {last}"
                    )

"""I12, I13 and I14: transactions end as their producers say, as a whole, separately, and in time.

Each transaction commits its own number for the same partitions of all groups, so a pending offset identifies its
transaction. Each marker is checked when it is written, separately in each partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.simulation.difference import difference
from tests.simulation.disk import STATE_PARTITION, Batch, Disk
from tests.simulation.notes import in_words, shorten
from tests.simulation.violation import Violation

from klamm.core.group.group_store import GroupStore
from klamm.core.txn.shard import TransactionShard
from klamm.core.txn.transaction import EPOCH_BUMP_VERSION, NO_PRODUCER_EPOCH, Transaction
from klamm.core.txn.transaction_state import ENDING
from klamm.core.txn.transaction_store import TransactionStore
from klamm.protocol.control_batch import read_end_transaction_marker
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.records import decode_batch
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.txn_offset_commit_response import TxnOffsetCommitResponse
from klamm.protocol.types import Offset, PartitionIndex
from klamm.runtime.transaction_record_serde import TransactionRecordSerde

if TYPE_CHECKING:
    from tests.simulation.network import Call

__all__ = ["TransactionChecker"]

_CHARACTERS = 300
"""Maximum length of a shown value."""


@dataclass(slots=True)
class _Known:
    """One transaction."""

    transactional_id: str
    asked: bool | None = None
    """The outcome that the producer asked for: True for commit."""
    told: bool | None = None
    """The outcome that the producer was told."""
    ended: bool | None = None
    """The outcome in the first marker."""
    ended_at: dict[PartitionIndex, Offset] = field(default_factory=dict)
    """The offset of its marker in each partition."""


class TransactionChecker:
    """All transactions of one world, by their numbers."""

    def __init__(self) -> None:
        self._transactions: dict[int, _Known] = {}
        self._granted: dict[str, tuple[int, int]] = {}
        """The last answer of InitProducerId, by transactional id."""
        self._serde = TransactionRecordSerde()
        self.store = TransactionStore()
        """A replay of the log of `__transaction_state`."""
        self.is_unchecked = False

    # Producers

    def begin(self, transactional_id: str) -> int:
        """Adds the transaction that a producer is about to begin, and returns its number."""
        number = len(self._transactions) + 1
        self._transactions[number] = _Known(transactional_id)
        return number

    def on_end(self, number: int, is_commit: bool) -> None:
        """Records the outcome that the producer is about to ask for."""
        self._transactions[number].asked = is_commit

    def on_ended(self, number: int, is_commit: bool) -> None:
        """Records the outcome that the producer was told."""
        self._transactions[number].told = is_commit

    # Requests

    def on_request(self, call: Call) -> None:
        """Notes which producer has the transactional id when a request reaches a coordinator."""
        call.tag = self._granted.get(getattr(call.request, "transactional_id", ""), (-1, -1))

    def on_answer(self, call: Call, answer: Message) -> None:
        """I13 and I14: checks that a producer which was replaced before its request gets no success."""
        request, granted = call.request, call.tag
        assert isinstance(granted, tuple)
        if not _is_granted(answer):
            return
        if isinstance(request, InitProducerIdRequest):
            assert isinstance(answer, InitProducerIdResponse)
            given = (answer.producer_id, answer.producer_epoch)
            if given[0] == granted[0] and given <= granted:
                raise Violation(13, f"{request.transactional_id} was given {given} after {granted}")
            self._granted[str(request.transactional_id)] = max(
                given, self._granted.get(str(request.transactional_id), (-1, -1))
            )
            return
        producer = (getattr(request, "producer_id", -1), getattr(request, "producer_epoch", -1))
        if producer < granted:
            raise Violation(14, f"{producer} was not fenced, {granted} having the transactional id: {request.NAME}")

    # The logs

    def on_state(self, batch: Batch) -> None:
        """Replays and checks a batch that was written to `__transaction_state`."""
        self.is_unchecked = True
        for record in decode_batch(batch.data):
            decoded = self._serde.deserialize(record.key or b"", record.value)
            assert decoded is not None
            before = dict(self.store.transactions)
            self.store.replay(decoded)
            for transactional_id, after in self.store.transactions.items():
                known = before.get(transactional_id)
                if known is not None and known is not after:
                    _check_epoch(known, after)

    def on_state_truncated(self, disk: Disk) -> None:
        """Replays the log after a truncation: a new leader lacks uncommitted records."""
        self.store = self.replay(disk)
        self.is_unchecked = True

    def replay(self, disk: Disk) -> TransactionStore:
        """Returns a store that is built from the whole log."""
        store = TransactionStore()
        for batch in disk.replicas[STATE_PARTITION].batches:
            for record in decode_batch(batch.data):
                decoded = self._serde.deserialize(record.key or b"", record.value)
                assert decoded is not None
                store.replay(decoded)
        return store

    def compare(self, shard: TransactionShard) -> None:
        """I17: compares the coordinator's store with the replay, between two steps."""
        self.is_unchecked = False
        self._compare(shard.store)

    def check_log(self, disk: Disk) -> None:
        """I17: checks that a replay of the log has the same result, even after compactions."""
        self._compare(self.replay(disk))

    def _compare(self, store: TransactionStore) -> None:
        found, expected = _lasting(store), _lasting(self.store)
        if found != expected:
            raise Violation(17, f"transactions:\n{difference(found, expected)}")

    def on_truncated(self, partition: PartitionIndex, end_offset: Offset) -> None:
        """Forgets the markers that a truncation removed: a new leader lacks uncommitted records."""
        for known in self._transactions.values():
            if known.ended_at.get(partition, -1) >= end_offset:
                del known.ended_at[partition]

    def on_marker(self, partition: PartitionIndex, batch: Batch, store: GroupStore) -> None:
        """I12 and I13: checks a marker that is about to be replayed into the shadow store of its partition."""
        (record,) = decode_batch(batch.data)
        marker = read_end_transaction_marker(record)
        assert marker is not None
        pending = store.pending_offsets.get(batch.producer_id, {})
        for number in sorted({offset.offset for offset in pending.values()}):
            known = self._transactions.get(number)
            if known is None:
                raise Violation(13, f"what a zombie wrote is part of a transaction of {batch.producer_id}")
            if marker.is_commit and not known.asked:
                raise Violation(13, f"transaction {number} was committed, which its producer has not asked for")
            if known.told is not None and known.told is not marker.is_commit:
                raise Violation(13, f"transaction {number} ended against what its producer was told: {in_words(known)}")
            if known.ended is not None and known.ended is not marker.is_commit:
                raise Violation(12, f"transaction {number} ended both ways: {in_words(known)}")
            if partition in known.ended_at:
                at = known.ended_at[partition]
                raise Violation(13, f"transaction {number} had ended at {at}, and another has a part of it")
            known.ended = marker.is_commit
            known.ended_at[partition] = Offset(batch.base_offset)

    # After the faults

    def unfinished(self, stores: Iterable[GroupStore]) -> str | None:
        """Returns what keeps offsets pending or a transaction unfinished; None if nothing does."""
        for store in stores:
            for producer_id, pending in store.pending_offsets.items():
                return f"producer {producer_id} has offsets pending: {shorten(str(in_words(pending)), _CHARACTERS)}"
        for transaction in self.store.transactions.values():
            if transaction.state in ENDING:
                return f"{in_words(transaction)} has not ended"
        return None

    def check_ledgers(self, stores: Iterable[GroupStore], groups: Iterable[str], partitions: int) -> None:
        """I12: checks, when no transaction is open, that all groups have the same number of each producer: its last
        one.
        """
        found: dict[str, dict[tuple[str, int], int]] = {}
        keys = [(group, PartitionIndex(index)) for group in groups for index in range(partitions)]
        names = sorted({known.transactional_id for known in self._transactions.values()})
        every = list(stores)
        for name in names:
            found[name] = dict.fromkeys(keys, -1)
            for group, index in keys:
                for store in every:
                    committed = store.offset(group, name, index)
                    if committed is not None:
                        found[name][group, index] = committed.offset
            numbers = sorted(set(found[name].values()))
            if len(numbers) > 1:
                raise Violation(12, f"parts of transactions of {name} are missing: {in_words(found[name])}")
            told = [
                number for number, known in self._transactions.items() if known.transactional_id == name and known.told
            ]
            if told and numbers[0] < told[-1]:
                raise Violation(12, f"{name} has {numbers[0]}, and committed {told[-1]}")


def _is_granted(answer: Message) -> bool:
    if isinstance(answer, TxnOffsetCommitResponse):
        return any(each.error_code == ErrorCode.NONE for topic in answer.topics for each in topic.partitions)
    return getattr(answer, "error_code", ErrorCode.NONE) == ErrorCode.NONE


def _check_epoch(before: Transaction, after: Transaction) -> None:
    if before.producer_id != after.producer_id:
        return
    rises = after.state in ENDING and after.client_transaction_version >= EPOCH_BUMP_VERSION
    if after.producer_epoch < before.producer_epoch + rises:
        raise Violation(13, f"the epoch did not rise:\n{difference(before, after, names=('before', 'after'))}")


def _lasting(store: TransactionStore) -> dict[str, Transaction]:
    return {
        name: replace(transaction, last_producer_epoch=NO_PRODUCER_EPOCH)
        for name, transaction in store.transactions.items()
    }

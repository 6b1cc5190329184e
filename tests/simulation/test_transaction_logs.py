"""Tests what worlds of brokers find in the logs of transactions."""

from __future__ import annotations

from typing import cast

import pytest
from tests.simulation.brokers.model import Batch, Model
from tests.simulation.brokers.transaction_logs import TransactionLogs
from tests.simulation.brokers.transactions import Outcome, Transaction, Transactions
from tests.simulation.violation import Violation

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import Millis, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicPartition
from klamm.runtime.record_serde import GroupRecordSerde
from klamm.storage.log.log import Log

ONE, TWO = (TopicPartition("topic", PartitionIndex(index)) for index in (0, 1))
OFFSETS = TopicPartition("__consumer_offsets", PartitionIndex(0))
PRODUCER = ProducerId(7)
EXPIRY_MS = 300


class _Log:
    """A log in memory; all of it is committed."""

    log_start_offset = Offset(0)

    def __init__(self) -> None:
        self.content = b""
        self.high_watermark = Offset(0)

    def read(self, offset: Offset, max_bytes: int, *, upper_bound: Offset, minimum_one_batch: bool) -> bytes:
        return self.content

    def append(self, batch: bytes) -> None:
        self.content += self.high_watermark.to_bytes(8, "big") + batch[8:]
        self.high_watermark = Offset(self.high_watermark + 1)


class _World:
    """Producers that write to some partitions, and the checks of the logs."""

    def __init__(self, version: int) -> None:
        self.model = Model([ONE, TWO], waits_for_disk=False)
        self.transactions = Transactions(self.model)
        self.checks = TransactionLogs(self.model, self.transactions, EXPIRY_MS)
        self._version = version
        self._logs = {where: _Log() for where in (ONE, TWO, OFFSETS)}
        self._written = 0

    def begin(self, outcome: Outcome = Outcome.OPEN) -> Transaction:
        transaction = self.transactions.begin("producer", 0.0, self._version)
        transaction.outcome = outcome
        return transaction

    def write(self, where: TopicPartition, transaction: Transaction, epoch: int) -> None:
        self._written += 1
        value = b"%d" % self._written
        self.model.begin(Batch(where, "producer", (value,), 0, is_idempotent=True, transaction=transaction))
        self._append(where, None, value, epoch)

    def commit_offset(self, transaction: Transaction, epoch: int) -> None:
        key = OffsetCommitKey(group="producer", topic="topic", partition=0)
        record = CoordinatorRecord(key, OffsetCommitValue(offset=transaction.number), 3)
        self._append(OFFSETS, *GroupRecordSerde().serialize(record), epoch)

    def _append(self, where: TopicPartition, key: bytes | None, value: bytes | None, epoch: int) -> None:
        records = [(0, key, value, ())]
        batch = encode_batch(records, producer_id=PRODUCER, producer_epoch=epoch, is_transactional=True)
        self._logs[where].append(batch)
        self.check(where)

    def mark(self, where: TopicPartition, epoch: int, *, is_commit: bool, now_ms: int = 0) -> None:
        self._logs[where].append(
            encode_end_transaction_marker(
                EndTransactionMarker(is_commit, 0),
                producer_id=PRODUCER,
                producer_epoch=ProducerEpoch(epoch),
                timestamp_ms=Millis(now_ms),
            )
        )
        self.check(where)

    def check(self, where: TopicPartition) -> None:
        self.checks.read(where, cast("Log", self._logs[where]))


@pytest.mark.parametrize(("version", "bump"), [(1, 0), (2, 1)])
def test_transactions_in_order(version: int, bump: int) -> None:
    """Transactions that end one after the other, in topics and in `__consumer_offsets`, are no finding. A marker that
    ends nothing is none either."""
    world = _World(version)
    for epoch in (0, bump):
        transaction = world.begin()
        world.write(ONE, transaction, epoch)
        world.write(ONE, transaction, epoch)
        world.commit_offset(transaction, epoch)
        transaction.outcome = Outcome.COMMITTED
        assert world.checks.lacks_markers
        world.mark(ONE, epoch + bump, is_commit=True)
        world.mark(OFFSETS, epoch + bump, is_commit=True)
        world.mark(TWO, epoch + bump, is_commit=True)
        assert not world.checks.lacks_markers
    world.checks.check_outcomes()


def test_a_marker_needs_a_higher_epoch_in_version_2() -> None:
    """With transaction version 2 a marker with the epoch of its records is a finding."""
    world = _World(2)
    world.write(ONE, world.begin(Outcome.IN_DOUBT), 3)
    with pytest.raises(Violation, match=r"I13: .* with epoch 3, and its records have 3"):
        world.mark(ONE, 3, is_commit=True)


def test_the_epoch_rises_with_each_transaction_of_version_2() -> None:
    """Two transactions of version 2 with the same epoch are a finding, even in different partitions."""
    world = _World(2)
    world.write(ONE, world.begin(), 3)
    with pytest.raises(Violation, match=r"I13: the epoch of producer 7 is 3 in transaction 1, and 3 in transaction 2"):
        world.write(TWO, world.begin(), 3)


def test_a_transaction_has_one_epoch() -> None:
    """Records of a transaction with different epochs are a finding."""
    world = _World(1)
    transaction = world.begin()
    world.write(ONE, transaction, 3)
    with pytest.raises(Violation, match=r"I13: .* goes on at offset 0"):
        world.write(TWO, transaction, 4)


def test_epochs_never_fall() -> None:
    """A batch with a lower epoch than the one before is a finding."""
    world = _World(1)
    world.write(ONE, world.begin(), 3)
    with pytest.raises(Violation, match=r"I13: offset 1 .* behind 3"):
        world.mark(ONE, 2, is_commit=False)


def test_an_old_marker_of_a_forgotten_producer() -> None:
    """A log that has forgotten an idle producer accepts an old marker. It ends nothing, and is no finding."""
    world = _World(2)
    world.write(ONE, world.begin(Outcome.IN_DOUBT), 3)
    world.mark(ONE, 4, is_commit=True)
    world.mark(ONE, 3, is_commit=False, now_ms=EXPIRY_MS)
    with pytest.raises(Violation, match=r"I13: offset 3 .* behind 3"):
        world.mark(ONE, 2, is_commit=False, now_ms=2 * EXPIRY_MS - 1)


def test_a_transaction_begins_behind_the_marker_of_the_one_before() -> None:
    """Records of two transactions without a marker between them are a finding, also in `__consumer_offsets`."""
    world = _World(1)
    world.commit_offset(world.begin(), 0)
    with pytest.raises(Violation, match=r"I13: .* has no marker there"):
        world.commit_offset(world.begin(), 0)


def test_a_marker_ends_its_own_transaction_only() -> None:
    """Records of a transaction behind its marker are a finding: the marker was of another transaction."""
    world = _World(1)
    transaction = world.begin(Outcome.IN_DOUBT)
    world.write(ONE, transaction, 0)
    world.mark(ONE, 0, is_commit=True)
    with pytest.raises(Violation, match=r"I13: .* goes on at offset 2 .* has ended at 1"):
        world.write(ONE, transaction, 0)


@pytest.mark.parametrize(
    ("outcome", "is_commit"), [(Outcome.OPEN, True), (Outcome.ABORTED, True), (Outcome.COMMITTED, False)]
)
def test_a_marker_against_the_producer(outcome: Outcome, is_commit: bool) -> None:
    """A commit that the producer has not asked for is a finding, and so is an abort of what it knows to be
    committed."""
    world = _World(2)
    world.write(ONE, world.begin(outcome), 0)
    with pytest.raises(Violation, match=f"I13: .* for its producer it is {outcome.value}"):
        world.mark(ONE, 1, is_commit=is_commit)


def test_an_outcome_that_the_producer_learns_later() -> None:
    """A marker is compared with the outcome that its producer learns later, too."""
    world = _World(2)
    transaction = world.begin(Outcome.IN_DOUBT)
    world.write(ONE, transaction, 0)
    world.mark(ONE, 1, is_commit=False)
    transaction.outcome = Outcome.COMMITTED
    with pytest.raises(Violation, match=r"I13: .* for its producer it is committed"):
        world.checks.check_outcomes()


def test_a_transaction_ends_in_one_way() -> None:
    """A commit in one partition and an abort in another are a finding."""
    world = _World(2)
    transaction = world.begin(Outcome.IN_DOUBT)
    for where in (ONE, TWO):
        world.write(where, transaction, 0)
    world.mark(ONE, 1, is_commit=True)
    with pytest.raises(Violation, match=r"I12: .* ends otherwise"):
        world.mark(TWO, 1, is_commit=False)

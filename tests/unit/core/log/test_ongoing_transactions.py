"""Tests the last stable offset of a log, and which batches and markers of transactions the log accepts."""

from __future__ import annotations

import pytest
from tests.support.log_folder import NOW_MS, batch

from klamm.core.log.ongoing_transactions import CompletedTransaction, OngoingTransactions
from klamm.core.log.producer_state import ProducerState
from klamm.core.log.transaction_verification import NO_GUARD, UNVERIFIED
from klamm.protocol.control_batch import EndTransactionMarker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import BatchHeader, read_batch_header
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId

DAY_MS = 86_400_000
ABORT = EndTransactionMarker(is_commit=False, coordinator_epoch=3)


def _header(sequence: int = 0, *, epoch: int = 0, producer_id: int = 7, is_transactional: bool = True) -> BatchHeader:
    return read_batch_header(
        batch(sequence=sequence, epoch=epoch, producer_id=producer_id, is_transactional=is_transactional)
    )


def _marker(epoch: int, producer_id: int = 7) -> BatchHeader:
    return read_batch_header(batch(epoch=epoch, producer_id=producer_id, is_transactional=True, is_control=True))


def _verify(state: ProducerState, sequence: int = 0, *, epoch: int = 0, adds_partitions: bool = False) -> int:
    return state.begin_verification(
        ProducerId(7), ProducerEpoch(epoch), sequence, adds_partitions=adds_partitions, now_ms=NOW_MS
    )


def _open(state: ProducerState, offset: int = 10, *, epoch: int = 0, producer_id: int = 7) -> None:
    state.record(_header(epoch=epoch, producer_id=producer_id), Offset(offset))


def _end(state: ProducerState, offset: int, *, epoch: int = 0, producer_id: int = 7) -> None:
    completed = state.record(_marker(epoch, producer_id), Offset(offset), ABORT)
    if completed is not None:
        state.transactions.complete(completed, Offset(0))


def _refusal(state: ProducerState, header: BatchHeader, guard: int = NO_GUARD) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        state.check(header, guard)
    return refused.value.code


def _marker_refusal(state: ProducerState, epoch: int, version: int, coordinator_epoch: int = 3) -> ErrorCode | None:
    marker = EndTransactionMarker(is_commit=True, coordinator_epoch=coordinator_epoch)
    try:
        state.check_marker(_marker(epoch), marker, version)
    except KafkaError as error:
        return error.code
    return None


# -- the last stable offset --------------------------------------------------------------------------------------------


def test_the_oldest_open_transaction_holds_the_last_stable_offset() -> None:
    """The oldest open transaction holds the last stable offset; an ended one does so until its marker is committed."""
    transactions = OngoingTransactions()
    assert transactions.first_unstable_offset(Offset(100)) is None
    transactions.begin(ProducerId(1), Offset(10))
    transactions.begin(ProducerId(2), Offset(20))
    transactions.complete(CompletedTransaction(ProducerId(2), Offset(20), Offset(30), False), Offset(0))
    assert transactions.first_unstable_offset(Offset(31)) == 10
    transactions.complete(CompletedTransaction(ProducerId(1), Offset(10), Offset(40), True), Offset(0))
    assert transactions.first_unstable_offset(Offset(40)) == 10
    assert transactions
    assert transactions.first_unstable_offset(Offset(41)) is None
    assert not transactions


def test_what_is_stable_is_forgotten_though_nobody_asks() -> None:
    """Stable transactions are forgotten even if no reader asks for the last stable offset, to save memory."""
    transactions = OngoingTransactions()
    for offset in range(0, 3_000, 3):
        transactions.begin(ProducerId(1), Offset(offset))
        end = CompletedTransaction(ProducerId(1), Offset(offset), Offset(offset + 2), False)
        transactions.complete(end, Offset(offset + 2))
    assert len(transactions) == 1


def test_what_is_found_in_a_log_is_stable_together() -> None:
    """Ended transactions that a crash left above the high watermark are one entry, and become stable together."""
    transactions = OngoingTransactions()
    for offset in range(0, 300, 3):
        transactions.begin(ProducerId(1), Offset(offset))
        end = CompletedTransaction(ProducerId(1), Offset(offset), Offset(offset + 2), False)
        transactions.complete_found(end, Offset(100))
    assert len(transactions) == 1
    assert transactions.first_unstable_offset(Offset(100)) == 99
    assert transactions.first_unstable_offset(Offset(299)) == 99
    assert transactions.first_unstable_offset(Offset(300)) is None


def test_the_index_says_how_far_all_is_decided_after_a_marker() -> None:
    """After a marker, the last stable offset is the start of the next open transaction, or the marker's next offset."""
    transactions = OngoingTransactions()
    transactions.begin(ProducerId(1), Offset(10))
    transactions.begin(ProducerId(2), Offset(20))
    first = CompletedTransaction(ProducerId(1), Offset(10), Offset(30), True)
    assert transactions.last_stable_offset_after(first) == 20
    transactions.complete(first, Offset(0))
    second = CompletedTransaction(ProducerId(2), Offset(20), Offset(35), True)
    assert transactions.last_stable_offset_after(second) == 36


def test_open_transactions_outlast_a_restart() -> None:
    """Open transactions are restored from a snapshot in any order, and the next marker ends its transaction."""
    state = ProducerState(DAY_MS)
    _open(state, 10, producer_id=9)
    _open(state, 12, producer_id=7)
    restored = ProducerState(DAY_MS)
    entries = [entry for producer in reversed(state.snapshot()) for entry in producer.snapshot_entries()]
    restored.load(entries, Offset(14))
    assert restored.transactions.first_undecided_offset() == 10
    assert restored.record(_marker(0, 9), Offset(14), ABORT) == (9, 10, 14, True)


def test_who_has_a_transaction_open_is_not_forgotten() -> None:
    """A producer with an open transaction does not expire, because its marker would then end nothing."""
    state = ProducerState(DAY_MS)
    _open(state)
    assert state.expire(Millis(NOW_MS + 2 * DAY_MS)) == 0
    _end(state, 11)
    assert state.expire(Millis(NOW_MS + 2 * DAY_MS)) == 1


def test_a_marker_without_records_ends_nothing() -> None:
    """A marker without records ends no transaction, and only sets the producer epoch and the coordinator epoch."""
    state = ProducerState(DAY_MS)
    assert state.record(_marker(4), Offset(0), ABORT) is None
    entry = state.get(ProducerId(7))
    assert entry is not None
    assert (entry.epoch, entry.coordinator_epoch) == (4, 3)


def test_a_control_batch_that_a_cleaner_emptied_changes_nothing() -> None:
    """A control batch that a cleaner has emptied changes nothing, because its transaction is no longer in the log."""
    state = ProducerState(DAY_MS)
    assert state.record(_marker(4), Offset(0)) is None
    assert len(state) == 0


# -- the first batch of a transaction ----------------------------------------------------------------------------------


def test_a_transaction_begins_only_where_the_coordinator_knows_of_it() -> None:
    """KIP-890: the first batch of a transaction is refused without a verification guard or with an outdated guard."""
    state = ProducerState(DAY_MS)
    assert _refusal(state, _header()) is ErrorCode.INVALID_TXN_STATE
    guard = _verify(state)
    assert guard != NO_GUARD
    assert _refusal(state, _header(), guard + 1) is ErrorCode.INVALID_TXN_STATE
    assert state.check(_header(), guard) is None


def test_an_open_transaction_needs_no_more_guards() -> None:
    """An open transaction needs no verification until it ends."""
    state = ProducerState(DAY_MS)
    _open(state)
    assert _verify(state) == NO_GUARD
    assert state.check(_header(1)) is None


def test_a_guard_does_not_outlast_the_transaction_that_it_was_given_for() -> None:
    """A marker invalidates the guard, because the coordinator's verification may arrive after the abort marker."""
    state = ProducerState(DAY_MS)
    guard = _verify(state)
    _end(state, 10)
    assert _refusal(state, _header(), guard) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_the_transaction_before_leaves_the_guard_of_the_next() -> None:
    """Under version 2 a marker has the epoch of the next transaction. It leaves the guard of that transaction valid,
    because the producer need not wait for the marker."""
    state = ProducerState(DAY_MS)
    _open(state, epoch=0)
    guard = _verify(state, epoch=1, adds_partitions=True)
    _end(state, 11, epoch=1)
    assert state.check(_header(epoch=1), guard) is None


def test_a_batch_may_not_overtake_one_that_is_being_verified() -> None:
    """A batch must not overtake a lower sequence that is being verified, or the lower one would be refused for ever."""
    state = ProducerState(DAY_MS)
    guard = _verify(state, 5)
    assert _verify(state, 3) == guard
    assert _refusal(state, _header(5), guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(_header(3), guard) is None


def test_a_higher_epoch_begins_its_sequences_anew() -> None:
    """A verification under an earlier epoch does not hold back the sequences of a higher epoch."""
    state = ProducerState(DAY_MS)
    _verify(state, 0)
    guard = _verify(state, 4, epoch=1)
    assert state.check(_header(4, epoch=1), guard) is None


def test_an_unknown_producer_of_version_2_begins_at_zero() -> None:
    """An unknown producer of version 2 must begin at sequence 0. Each of its transactions has a new epoch, so no
    sequence can have been forgotten."""
    state = ProducerState(DAY_MS)
    guard = _verify(state, 2, adds_partitions=True)
    assert _refusal(state, _header(2), guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_old_epoch_is_refused_before_it_is_verified() -> None:
    """An old epoch gets INVALID_PRODUCER_EPOCH, from which its producer can recover, and not INVALID_TXN_STATE."""
    state = ProducerState(DAY_MS)
    _end(state, 10, epoch=5)
    with pytest.raises(KafkaError) as refused:
        _verify(state, epoch=4)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert _refusal(state, _header(epoch=4)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_retry_of_a_transaction_that_ended_is_answered() -> None:
    """I10: a retry of a batch in an ended transaction, whose first answer was lost, is answered as a duplicate."""
    state = ProducerState(DAY_MS)
    _open(state)
    _end(state, 11)
    duplicate = state.check(_header())
    assert duplicate is not None
    assert duplicate.first_offset == 10


def test_without_verification_any_transaction_may_begin() -> None:
    """If `transaction.partition.verification.enable` is off, any transaction may begin."""
    assert ProducerState(DAY_MS).check(_header(), UNVERIFIED) is None


def test_a_plain_batch_has_no_place_in_a_transaction() -> None:
    """A batch without the transactional flag is refused while its producer has an open transaction."""
    state = ProducerState(DAY_MS)
    _open(state)
    assert _refusal(state, _header(1, is_transactional=False)) is ErrorCode.INVALID_TXN_STATE


def test_verifications_that_led_nowhere_are_forgotten() -> None:
    """Verifications without a batch expire together with the producers, after producer.id.expiration.ms."""
    state = ProducerState(DAY_MS)
    _verify(state)
    state.expire(Millis(NOW_MS + DAY_MS - 1))
    assert len(state.verifications) == 1
    state.expire(Millis(NOW_MS + DAY_MS))
    assert len(state.verifications) == 0


# -- batches and markers of a coordinator ------------------------------------------------------------------------------


def test_a_coordinators_batch_is_held_to_the_transaction_but_to_no_sequence() -> None:
    """A coordinator's batches (offsets of a group) need a verified transaction, but may all have sequence 0."""
    state = ProducerState(DAY_MS)
    with pytest.raises(KafkaError) as refused:
        state.check_of_coordinator(_header())
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    state.check_of_coordinator(_header(), _verify(state))
    _open(state)
    state.check_of_coordinator(_header())


@pytest.mark.parametrize(
    ("version", "epoch", "expected"),
    [
        (1, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 5, None),
        (1, 6, None),
        (2, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 6, None),
    ],
)
def test_a_marker_has_an_epoch_that_can_end_what_is_open(version: int, epoch: int, expected: ErrorCode | None) -> None:
    """A marker needs at least the epoch of the records, and under version 2 a higher one (KIP-1228)."""
    state = ProducerState(DAY_MS)
    _open(state, epoch=5)
    assert _marker_refusal(state, epoch, version) is expected


def test_a_marker_may_be_repeated() -> None:
    """A marker may be repeated while no transaction is open; the coordinator may have missed the first answer."""
    state = ProducerState(DAY_MS)
    _open(state, epoch=5)
    _end(state, 11, epoch=6)
    assert _marker_refusal(state, 6, 2) is None
    _open(state, 12, epoch=6)
    assert _marker_refusal(state, 6, 2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_highest_epoch_can_be_ended() -> None:
    """A transaction with the highest epoch can be ended by a marker of the same epoch, because no higher one exists."""
    state = ProducerState(DAY_MS)
    _open(state, epoch=2**15 - 1)
    assert _marker_refusal(state, 2**15 - 1, 2) is None


def test_a_coordinator_that_was_replaced_is_fenced() -> None:
    """A marker is fenced if its coordinator epoch is below that of the successor's markers."""
    state = ProducerState(DAY_MS)
    _end(state, 10, epoch=5)
    assert _marker_refusal(state, 5, 1, coordinator_epoch=2) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert _marker_refusal(state, 5, 1, coordinator_epoch=3) is None

"""Tests idempotent producers: sequences have no gaps, retries are answered, and old epochs are fenced (I10)."""

from __future__ import annotations

import gc
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.log_folder import NOW_MS, batch

from klamm.core.log.producer_entry import BATCHES_TO_RETAIN, ProducerSnapshotEntry
from klamm.core.log.producer_state import ProducerState
from klamm.protocol.control_batch import EndTransactionMarker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import BatchHeader, read_batch_header
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId

DAY_MS = 86_400_000
LAST_SEQUENCE = 2**31 - 1


def _header(
    sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7, timestamp: int = NOW_MS
) -> BatchHeader:
    return read_batch_header(
        batch(count, sequence=sequence, epoch=epoch, producer_id=producer_id, timestamp_ms=timestamp)
    )


def _written(state: ProducerState, *headers: BatchHeader) -> ProducerState:
    for header in headers:
        assert state.check(header) is None
        state.record(header, state.end_offset)
        state.end_offset = Offset(state.end_offset + header.records_count)
    return state


def _saved(state: ProducerState) -> list[ProducerSnapshotEntry]:
    return [entry for producer in state.snapshot() for entry in producer.snapshot_entries()]


def _refusal(state: ProducerState, header: BatchHeader) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        state.check(header)
    return refused.value.code


def test_sequences_must_follow_one_another() -> None:
    """The next sequence is accepted; a gap, and a batch that overlaps written sequences, are refused."""
    state = _written(ProducerState(DAY_MS), _header(0, 3), _header(3, 2))
    assert state.check(_header(5)) is None
    assert _refusal(state, _header(6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert _refusal(state, _header(4, 5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("behind", range(1, BATCHES_TO_RETAIN + 1))
def test_a_retry_of_any_of_the_last_five_batches_is_recognized(behind: int) -> None:
    """I10: a retry of any of the last five batches is answered with the offsets of the written batch."""
    state = _written(ProducerState(DAY_MS), *(_header(number * 2, 2) for number in range(8)))
    sequence = 16 - 2 * behind
    duplicate = state.check(_header(sequence, 2))
    assert duplicate is not None
    assert (duplicate.first_offset, duplicate.last_offset) == (sequence, sequence + 1)


def test_a_retry_of_an_older_batch_is_out_of_order() -> None:
    """A retry of an older batch is OUT_OF_ORDER_SEQUENCE_NUMBER; Kafka 4 has no other error for it."""
    state = _written(ProducerState(DAY_MS), *(_header(number) for number in range(BATCHES_TO_RETAIN + 1)))
    assert _refusal(state, _header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_part_of_a_written_batch_is_no_retry() -> None:
    """Only a batch with exactly the written sequences is a retry; a part of them is out of order."""
    state = _written(ProducerState(DAY_MS), _header(0, 4))
    assert _refusal(state, _header(0, 3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced() -> None:
    """A batch of an older epoch is refused, because the producer was replaced."""
    state = _written(ProducerState(DAY_MS), _header(0, epoch=3))
    assert _refusal(state, _header(1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_new_epoch_begins_at_zero() -> None:
    """A new epoch must begin at sequence 0, and the batches of the old epoch are forgotten."""
    state = _written(ProducerState(DAY_MS), _header(0, epoch=3))
    assert _refusal(state, _header(1, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    _written(state, _header(0, epoch=4))
    assert _refusal(state, _header(5, epoch=4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_unknown_producer_may_begin_anywhere() -> None:
    """KIP-360: an unknown producer may begin at any sequence, because its records may have been deleted."""
    assert ProducerState(DAY_MS).check(_header(42)) is None


def test_batches_behind_one_that_could_not_be_written_wait_for_it() -> None:
    """I10: if the first of several batches of an unknown producer could not be written, the later ones are refused
    until it is sent again. A new epoch and a known producer are not affected."""
    state = ProducerState(DAY_MS)
    state.write_failed(_header(2))
    state.write_failed(_header(0, 2))
    state.write_failed(_header(1, epoch=-1))
    assert _refusal(state, _header(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(_header(2, producer_id=8)) is None
    assert state.check(_header(5, epoch=1)) is None
    _written(state, _header(0, 2), _header(2))
    state.write_failed(_header(3))
    _written(state, _header(3))


def test_only_so_many_refusals_are_remembered() -> None:
    """The number of remembered write failures is limited; the oldest one is forgotten."""
    state = ProducerState(DAY_MS)
    for producer_id in range(1001):
        state.write_failed(_header(0, producer_id=producer_id))
    assert state.check(_header(1, producer_id=0)) is None
    assert _refusal(state, _header(1, producer_id=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero() -> None:
    """Sequences continue with 0 after 2**31 - 1, between batches and within a batch."""
    state = _written(ProducerState(DAY_MS), _header(LAST_SEQUENCE - 1, 2))
    assert _refusal(state, _header(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(_header(0)) is None
    state = _written(ProducerState(DAY_MS), _header(LAST_SEQUENCE, 3), _header(2))
    duplicate = state.check(_header(LAST_SEQUENCE, 3))
    assert duplicate is not None
    assert duplicate.first_offset == 0


def test_idle_producers_are_forgotten() -> None:
    """Idle producers are forgotten after producer.id.expiration.ms."""
    state = _written(ProducerState(DAY_MS), _header(0), _header(0, producer_id=8, timestamp=NOW_MS + 5))
    assert state.expire(Millis(NOW_MS + DAY_MS)) == 1
    assert [producer_id for producer_id, _ in state] == [8]


def test_a_marker_ends_what_the_producer_had_open() -> None:
    """A marker in a log from Kafka ends the open transaction; its epoch applies, and sequences begin at 0."""
    state = ProducerState(DAY_MS)
    opening = read_batch_header(batch(2, sequence=0, epoch=1, producer_id=7, is_transactional=True))
    state.record(opening, Offset(10))
    entry = state.get(ProducerId(7))
    assert entry is not None
    assert entry.current_transaction_first_offset == 10
    marker = read_batch_header(batch(epoch=2, producer_id=7, is_transactional=True, is_control=True))
    completed = state.record(marker, Offset(12), EndTransactionMarker(is_commit=False, coordinator_epoch=5))
    assert completed == (7, 10, 12, True)
    assert entry.coordinator_epoch == 5
    assert (entry.epoch, entry.current_transaction_first_offset, entry.last_sequence) == (2, -1, -1)
    assert state.check(_header(0, epoch=2)) is None


def test_a_snapshot_holds_the_last_batches_of_each_producer() -> None:
    """A snapshot has the last five batches of each producer, so retries of them are recognized after a restart."""
    headers = [_header(2 * number, 2) for number in range(6)]
    state = _written(ProducerState(DAY_MS), *headers, _header(0, producer_id=9))
    restored = ProducerState(DAY_MS)
    restored.load(_saved(state), state.end_offset)
    assert restored.end_offset == 13
    duplicates = [restored.check(header) for header in headers[1:]]
    assert [duplicate and duplicate.first_offset for duplicate in duplicates] == [2, 4, 6, 8, 10]
    assert _refusal(restored, headers[0]) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert restored.check(_header(12)) is None
    assert restored.snapshot() == state.snapshot()


def test_apache_kafka_finds_the_last_batch_in_a_snapshot() -> None:
    """Kafka uses the last entry of each producer, so this entry describes the producer as Kafka's own entry does."""
    state = _written(ProducerState(DAY_MS), _header(0, 2, timestamp=NOW_MS + 5), _header(2, 3))
    assert [entry.timestamp for entry in _saved(state)] == [NOW_MS, NOW_MS]  # none expires after the last one
    last = {entry.producer_id: entry for entry in _saved(state)}
    entry = ProducerSnapshotEntry(ProducerId(7), ProducerEpoch(0), 4, Offset(4), 2, Millis(NOW_MS), -1, Offset(-1))
    assert list(last.values()) == [entry]
    restored = ProducerState(DAY_MS)
    restored.load(last.values(), state.end_offset)
    assert restored.check(_header(2, 3)) is not None
    assert _refusal(restored, _header(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_producers_are_copied_while_one_begins() -> None:
    """All producers are copied at once although the garbage collector, in whose pauses others begin, interrupts it."""
    state = ProducerState(DAY_MS)
    numbers = itertools.count()

    def begin(*_: object) -> None:
        state.record(_header(0, producer_id=next(numbers)), state.end_offset)

    for _ in range(5_000):
        begin()
    gc.callbacks.append(begin)
    try:
        copied = state.entries()
    finally:
        gc.callbacks.remove(begin)
    assert len(copied) >= 5_000


_STEPS = st.lists(st.tuples(st.integers(1, 4), st.lists(st.integers(-7, 1), max_size=3)), min_size=1, max_size=12)


@given(_STEPS)
def test_whatever_is_sent_the_sequences_written_have_no_gap(steps: list[tuple[int, list[int]]]) -> None:
    """I10, against a model: retries are recognized, batches ahead of their turn are refused, and no gap is written."""
    state = ProducerState(DAY_MS)
    counts = [count for count, _ in steps]
    starts = [sum(counts[:index]) for index in range(len(counts))]
    for turn, (count, attempts) in enumerate(steps):
        for index in {turn + distance for distance in attempts} - {turn}:
            if turn == 0 or not 0 <= index < len(counts):
                continue
            header = _header(starts[index], counts[index])
            if turn - BATCHES_TO_RETAIN <= index < turn:
                duplicate = state.check(header)
                assert duplicate is not None
                assert duplicate.first_offset == starts[index]
            else:
                assert _refusal(state, header) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        _written(state, _header(starts[turn], count))
    assert state.end_offset == sum(counts)

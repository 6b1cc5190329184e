"""Tests what happens to each batch when its segment is cleaned."""

from __future__ import annotations

from klamm.core.log.compaction_batches import AbortedEntry, BatchFate, BatchJudge, CleanedTransactions, LastBatch
from klamm.protocol.record_batch import (
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId

NOW_MS = Millis(1000)
A, B = ProducerId(1), ProducerId(2)


def _header(
    offset: int, producer: int = -1, attributes: int = 0, *, count: int = 1, base_timestamp: int = 5, epoch: int = 0
) -> BatchHeader:
    return BatchHeader(
        Offset(offset),
        100,
        LeaderEpoch(0),
        2,
        0,
        attributes,
        0,
        Millis(base_timestamp),
        Millis(5),
        ProducerId(producer),
        ProducerEpoch(epoch),
        0,
        count,
    )


def _data(offset: int, producer: int) -> BatchHeader:
    return _header(offset, producer, TRANSACTIONAL_MASK)


def _marker(offset: int, producer: int, **others: int) -> BatchHeader:
    return _header(offset, producer, TRANSACTIONAL_MASK | CONTROL_MASK, **others)


def _horizon(header: BatchHeader, at_ms: int) -> BatchHeader:
    return header._replace(attributes=header.attributes | DELETE_HORIZON_MASK, base_timestamp=Millis(at_ms))


def _aborted(producer: int, first: int, last: int) -> AbortedEntry:
    return ProducerId(producer), Offset(first), Offset(last), Offset(last + 1)


def _judge(*aborted: AbortedEntry, last: dict[ProducerId, LastBatch] | None = None) -> BatchJudge:
    judge = BatchJudge(CleanedTransactions(aborted), NOW_MS)
    judge.last_batches = last or {}
    return judge


def test_records_of_an_aborted_transaction_go_and_its_marker_stays_as_long_as_it_had_any() -> None:
    """Records of an aborted transaction are dropped, but its marker stays if it had records in this cleaning. The
    transaction index of the cleaned segment keeps the entry, for consumers that still have the records."""
    transactions = CleanedTransactions([_aborted(A, 0, 4)])
    judge = BatchJudge(transactions, NOW_MS)
    assert judge.judge(_data(0, A), None, is_last=False).drops_records
    assert not judge.judge(_data(1, B), None, is_last=False).drops_records
    assert not judge.judge(_header(2), None, is_last=False).drops_records
    assert judge.judge(_data(3, A), None, is_last=False).drops_records
    assert judge.judge(_marker(4, A), is_commit=False, is_last=False) == BatchFate(False, False, False)
    assert transactions.take_retained() == [_aborted(A, 0, 4)]
    assert transactions.take_retained() == []


def test_a_producer_may_abort_and_commit_by_turns() -> None:
    """A producer may alternate between aborts and commits, because offsets identify its aborted transactions."""
    judge = _judge(_aborted(A, 0, 1), _aborted(A, 4, 5))
    fates = [
        judge.judge(_data(0, A), None, is_last=False),
        judge.judge(_marker(1, A), is_commit=False, is_last=False),
        judge.judge(_data(2, A), None, is_last=False),
        judge.judge(_marker(3, A), is_commit=True, is_last=False),
        judge.judge(_data(4, A), None, is_last=False),
        judge.judge(_marker(5, A), is_commit=False, is_last=False),
    ]
    assert [fate.drops_records for fate in fates] == [True, False, False, False, True, False]


def test_a_marker_without_records_gets_a_delete_horizon_and_goes_when_it_has_passed() -> None:
    """KIP-534: a commit or abort marker without records gets a delete horizon, and is dropped after the horizon."""
    for is_commit in (True, False):
        judge = _judge()
        assert judge.judge(_marker(0, A), is_commit=is_commit, is_last=False) == BatchFate(False, False, True)
        later = _horizon(_marker(0, A), NOW_MS + 1)
        assert not judge.judge(later, is_commit=is_commit, is_last=False).drops_records
        passed = _horizon(_marker(0, A), NOW_MS)
        assert judge.judge(passed, is_commit=is_commit, is_last=False).drops_records


def test_a_commit_marker_stays_while_records_of_its_transaction_do() -> None:
    """A commit marker stays while records of its transaction stay, even after its delete horizon. Such a horizon was
    set while the transaction looked empty."""
    judge = _judge()
    judge.judge(_data(0, A), None, is_last=False)
    fate = judge.judge(_horizon(_marker(1, A), 0), is_commit=True, is_last=False)
    assert fate == BatchFate(False, False, False)


def test_an_emptied_marker_goes_and_one_of_an_unknown_kind_stays() -> None:
    """An emptied marker is dropped; a marker of an unknown kind stays, because a later version may have written it."""
    judge = _judge()
    assert judge.judge(_horizon(_marker(0, A, count=0), 0), None, is_last=False).drops_records
    assert not judge.judge(_horizon(_marker(1, A), 0), None, is_last=False).drops_records


def test_the_last_batch_of_a_producer_stays_even_empty() -> None:
    """A producer's last batch stays, even if empty, because it has the last sequence. If the producer has only a
    marker, the marker with its epoch stays."""
    judge = _judge(last={A: LastBatch(Offset(7), ProducerEpoch(0)), B: LastBatch(Offset(-1), ProducerEpoch(3))})
    assert judge.judge(_header(7, A), None, is_last=False).stays_empty
    assert not judge.judge(_header(6, A), None, is_last=False).stays_empty
    assert not judge.judge(_header(7), None, is_last=False).stays_empty
    assert judge.judge(_marker(8, B, epoch=3), is_commit=True, is_last=False).stays_empty
    assert not judge.judge(_marker(8, B, epoch=2), is_commit=True, is_last=False).stays_empty
    assert not judge.judge(_header(8, B, epoch=3), None, is_last=False).stays_empty


def test_the_last_batch_of_a_segment_stays_even_empty() -> None:
    """The last batch of a segment stays, even if empty, so that the segment keeps its last offset."""
    assert _judge().judge(_header(3), None, is_last=True).stays_empty

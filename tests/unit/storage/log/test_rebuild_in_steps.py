"""Tests the rebuild of the producers of a truncated log: in steps, and completed early by whatever needs it."""

from __future__ import annotations

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, sent

from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from klamm.storage.log.log import Log
from klamm.storage.recovery.producer_recovery import newest_good_snapshot

_BATCHES = 1000


def _idempotent(log: Log, count: int, producer_id: int = 7) -> None:
    for sequence in range(count):
        append(log, batch(producer_id=producer_id, epoch=0, sequence=sequence))


def _last_sequences(log: Log) -> dict[int, int]:
    return {producer_id: entry.last_sequence for producer_id, entry in log.producers.active()}


def _cut(folder: LogFolder, offset: int, *, committed: int = 10, count: int = _BATCHES) -> Log:
    """Returns a log of a follower that has been truncated, and whose producers are not rebuilt yet."""
    log = folder.create()
    for sequence in range(count):
        log.following.append(_copied(sequence), NOW_MS)
    log.advance_high_watermark(Offset(committed))
    assert log.truncation.truncate_to(Offset(offset), NOW_MS)
    return log


def _copied(sequence: int) -> bytes:
    return batch(producer_id=7, epoch=0, sequence=sequence, base_offset=Offset(sequence))


def test_a_step_reads_some_batches(folder: LogFolder) -> None:
    """The event loop runs between the steps, however many batches the segment has. The offsets are right at once."""
    log = _cut(folder, 900)
    assert log.log_end_offset == 900
    assert not log.producers.is_rebuilt
    steps = 1
    while not log.producers.rebuild_some():
        assert not log.producers.is_rebuilt
        steps += 1
    assert steps == 900 // 200 + 1
    assert log.producers.is_rebuilt
    assert _last_sequences(log) == {7: 899}


def test_an_append_completes_the_rebuild(folder: LogFolder) -> None:
    """A follower's append would otherwise be recorded in a state that is replaced afterwards."""
    log = _cut(folder, 500)
    log.following.append(_copied(500), NOW_MS)
    assert _last_sequences(log) == {7: 500}


def test_a_new_leader_completes_the_rebuild(folder: LogFolder) -> None:
    """A broker that begins to lead knows which retries are duplicates, and which sequences are gaps."""
    log = _cut(folder, 500)
    log.assign_leader_epoch(LeaderEpoch(5))
    assert append(log, batch(producer_id=7, epoch=0, sequence=499), leader_epoch=5).is_duplicate
    assert log.log_end_offset == 500
    with pytest.raises(KafkaError) as refusal:
        append(log, batch(producer_id=7, epoch=0, sequence=700), leader_epoch=5)
    assert refusal.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("ending", ["restart", "crash"])
def test_no_snapshot_has_removed_batches(folder: LogFolder, ending: str) -> None:
    """I2: a stop before the rebuild is complete leaves no snapshot with producers of removed batches."""
    _cut(folder, 500)
    getattr(folder, ending)()
    assert _last_sequences(folder.log()) == {7: 499}
    if ending == "restart":
        assert newest_good_snapshot(folder.path / "orders-0", [Offset(500)]) == 500


def test_a_second_truncation_begins_again(folder: LogFolder) -> None:
    """The rebuild of the first truncation has read batches that the second one removes."""
    log = _cut(folder, 900)
    for _ in range(3):
        assert not log.producers.rebuild_some()
    log.truncation.truncate_to(Offset(400), NOW_MS)
    log.producers.complete_rebuild()
    assert _last_sequences(log) == {7: 399}


def test_a_removed_segment_does_not_end_the_rebuild(folder: LogFolder) -> None:
    """Retention may delete a segment that the rebuild has yet to read. It begins again with the others."""
    folder.config = folder.config.__class__(segment_bytes=20_000)
    log = _cut(folder, 900)
    for path in log.directory.glob("*.snapshot"):
        path.unlink()
    log.truncation.truncate_to(Offset(899), NOW_MS)
    assert not log.producers.rebuild_some()
    log.advance_high_watermark(Offset(899))
    assert log.segment_count > 3
    log.delete_records_before(Offset(850))
    assert log.delete_old_segments(NOW_MS) > 0
    log.producers.complete_rebuild()
    assert not log.is_offline
    assert _last_sequences(log) == {7: 898}


def test_damage_takes_the_log_offline(folder: LogFolder) -> None:
    """Producers that can't be read would let retries be written twice. The reason names what happened."""
    log = _cut(folder, 900)
    with (log.directory / f"{0:020}.log").open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 100)
    with pytest.raises(KafkaError) as refusal:
        log.producers.complete_rebuild()
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.is_offline
    assert "after a truncation" in str(log.offline_reason)
    log.assign_leader_epoch(LeaderEpoch(4))  # says nothing: the next request is refused


def _marker(offset: int, *, is_commit: bool) -> bytes:
    marker = encode_end_transaction_marker(
        EndTransactionMarker(is_commit, 0),
        producer_id=ProducerId(3),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=NOW_MS,
    )
    return offset.to_bytes(8, "big") + marker[8:]


@pytest.mark.parametrize("committed", [0, 2, 4])
def test_read_committed_consumers_see_no_open_transaction_meanwhile(folder: LogFolder, committed: int) -> None:
    """I5: the marker of a transaction was removed, perhaps although it was committed (an unclean election). During the
    rebuild the last stable offset does not pass the transaction, which is open again."""
    log = folder.create()
    log.following.append(sent(0, 0), NOW_MS)
    records = batch(2, producer_id=3, epoch=0, sequence=0, is_transactional=True, base_offset=Offset(1))
    log.following.append(records, NOW_MS)
    log.following.append(_marker(3, is_commit=True), NOW_MS)
    log.advance_high_watermark(Offset(committed))
    log.truncation.truncate_to(Offset(3), NOW_MS)
    log.advance_high_watermark(Offset(3))
    assert log.last_stable_offset == 1
    log.producers.complete_rebuild()
    assert log.last_stable_offset == 1

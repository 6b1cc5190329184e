"""Tests appends to a log: offsets, duplicates, rolls and refused batches."""

from __future__ import annotations

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, read_all, read_bytes

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import LeaderEpoch, Offset


def test_offsets_are_consecutive(folder: LogFolder) -> None:
    """I1: offsets are consecutive, and each append returns its own offsets."""
    log = folder.create()
    infos = [append(log, batch(count)) for count in (1, 3, 2)]
    assert [(info.first_offset, info.last_offset) for info in infos] == [(0, 0), (1, 3), (4, 5)]
    assert log.log_end_offset == 6
    assert [record.offset for record in read_all(log)] == list(range(6))


def test_the_bytes_are_the_producers_but_for_offset_and_leader_epoch(folder: LogFolder) -> None:
    """I9: the log stores the producer's bytes, except for offset and leader epoch, so that the CRC still holds."""
    log = folder.create()
    append(log)
    records = batch(2, value=b"as it was")
    append(log, records, leader_epoch=5)
    stored = read_bytes(log, 1)
    assert stored[:8] == (1).to_bytes(8, "big")
    assert stored[12:16] == (5).to_bytes(4, "big")
    assert (stored[8:12], stored[16:]) == (records[8:12], records[16:])


def test_what_follows_the_batch_is_not_stored(folder: LogFolder) -> None:
    """Bytes after the batch, such as a client's partial second batch, are not stored."""
    log = folder.create()
    records = batch()
    append(log, records + b"rest")
    assert log.size_bytes == len(records)


def test_a_retry_is_answered_with_the_first_offset(folder: LogFolder) -> None:
    """I10: a retry returns the offset of the original batch, and nothing is written."""
    log = folder.create()
    append(log)
    first = batch(2, sequence=0, producer_id=1, epoch=0)
    append(log, first)
    append(log, batch(1, sequence=2, producer_id=1, epoch=0))
    size = log.size_bytes
    info = append(log, first)
    assert (info.first_offset, info.last_offset, info.is_duplicate) == (1, 2, True)
    assert info.log_append_time_ms == NOW_MS
    assert (log.log_end_offset, log.size_bytes) == (4, size)


def test_a_gap_in_the_sequences_is_refused(folder: LogFolder) -> None:
    """A gap in the sequences is refused with OUT_OF_ORDER_SEQUENCE_NUMBER, and nothing is written."""
    log = folder.create()
    append(log, batch(sequence=0, producer_id=1, epoch=0))
    with pytest.raises(KafkaError) as refused:
        append(log, batch(sequence=2, producer_id=1, epoch=0))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 1


def test_a_batch_larger_than_a_segment_is_refused(folder: LogFolder) -> None:
    """A batch that is larger than a segment is refused with RECORD_LIST_TOO_LARGE."""
    log = folder.create(segment_bytes=1000)
    with pytest.raises(KafkaError) as refused:
        append(log, batch(value=bytes(1000)))
    assert refused.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_log_append_time_is_told_to_the_producer(folder: LogFolder) -> None:
    """With LogAppendTime, the append time is in the answer to the producer and in every record."""
    log = folder.create(message_timestamp_type="LogAppendTime")
    assert append(log, batch(timestamp_ms=5)).log_append_time_ms == NOW_MS
    assert [record.timestamp_ms for record in read_all(log)] == [NOW_MS]


def test_segments_are_rolled_at_their_size(folder: LogFolder) -> None:
    """A full segment is rolled: the next one begins at its end, with a snapshot of the producers."""
    size = len(batch(2))
    log = folder.create(segment_bytes=3 * size)
    for _ in range(8):
        append(log, batch(2))
    assert [path.name for path in folder.log_files()] == [f"{base:020d}.log" for base in (0, 6, 12)]
    assert [path.stat().st_size for path in folder.log_files()] == [3 * size, 3 * size, 2 * size]
    folder.directory.wait_for_background()
    assert (log.directory / f"{12:020d}.snapshot").exists()
    assert [record.offset for record in read_all(log)] == list(range(16))


def test_a_segment_is_rolled_when_it_is_old_enough(folder: LogFolder) -> None:
    """A segment is rolled when its records span more than segment.ms by their timestamps."""
    log = folder.create(segment_ms=1000)
    append(log, batch(timestamp_ms=NOW_MS))
    append(log, batch(timestamp_ms=NOW_MS + 1000))
    assert log.segment_count == 1
    append(log, batch(timestamp_ms=NOW_MS + 1001))
    assert log.segment_count == 2


def test_an_empty_segment_is_not_rolled(folder: LogFolder) -> None:
    """An empty segment is not rolled, because two segments cannot have the same base offset."""
    log = folder.create()
    log.roll(NOW_MS)
    assert log.segment_count == 1


def test_a_leader_epoch_begins_at_its_first_record(folder: LogFolder) -> None:
    """A leader epoch begins at its first record, and `end_offset_for_epoch` returns where each epoch ended."""
    log = folder.create()
    for epoch in (0, 0, 2, 3):
        append(log, leader_epoch=epoch)
    assert log.leader_epochs == ((0, 0), (2, 2), (3, 3))
    assert log.end_offset_for_epoch(LeaderEpoch(0)) == (0, 2)
    assert log.end_offset_for_epoch(LeaderEpoch(1)) == (0, 2)
    assert log.end_offset_for_epoch(LeaderEpoch(3)) == (3, 4)
    assert log.leader_epoch_at_start() == 0


def test_an_epoch_can_be_assigned_before_its_first_record(folder: LogFolder) -> None:
    """A leader epoch can be assigned before its first record, as when a broker becomes the leader."""
    log = folder.create()
    append(log)
    log.assign_leader_epoch(LeaderEpoch(4))
    assert log.latest_epoch == 4
    assert log.end_offset_for_epoch(LeaderEpoch(0)) == (0, 1)
    assert log.end_offset_for_epoch(LeaderEpoch(4)) == (4, 1)


def test_the_high_watermark_only_rises_and_never_beyond_the_end(folder: LogFolder) -> None:
    """I5: the high watermark only rises, and never passes the log end."""
    log = folder.create()
    log.appender.append_as_leader(batch(5), leader_epoch=LeaderEpoch(0), now_ms=NOW_MS)
    assert log.high_watermark == 0
    log.advance_high_watermark(Offset(3))
    log.advance_high_watermark(Offset(2))
    assert (log.high_watermark, log.last_stable_offset) == (3, 3)
    log.advance_high_watermark(Offset(9))
    assert log.high_watermark == 5


def test_coordinators_write_through_the_same_door(folder: LogFolder) -> None:
    """A coordinator may append a batch without keys to a compacted log."""
    log = folder.create(cleanup_policy=frozenset({"compact"}))
    info = log.appender.append_as_leader(
        batch(2, key=None), leader_epoch=LeaderEpoch(1), now_ms=NOW_MS, from_client=False
    )
    assert info.last_offset == 1


@pytest.mark.parametrize("messages", [1, 3])
def test_flush_messages_moves_the_recovery_point(folder: LogFolder, messages: int) -> None:
    """With flush.messages, the log is synced after that many records, and the recovery point moves to the log end."""
    log = folder.create(flush_messages=messages)
    points = []
    for _ in range(6):
        append(log)
        points.append(log.recovery_point)
    assert points == [offset // messages * messages for offset in range(1, 7)]


def test_flush_ms_is_honoured(folder: LogFolder) -> None:
    """With flush.ms, a check after that time syncs the log."""
    log = folder.create(flush_ms=1000)
    append(log)
    folder.advance(999)
    log.durability.flush_if_due(folder.now_ms)
    folder.directory.wait_for_background()
    assert log.recovery_point == 0
    folder.advance(1)
    log.durability.flush_if_due(folder.now_ms)
    folder.directory.wait_for_background()
    assert log.recovery_point == 1


def test_a_rolled_segment_is_synced_in_the_background(folder: LogFolder) -> None:
    """A rolled segment is synced in the background, so that recovery reads little more than the active segment."""
    log = folder.create()
    append(log, batch(7))
    log.roll(NOW_MS)
    folder.directory.wait_for_background()
    assert log.recovery_point == 7


def test_producers_and_batches_survive_a_restart(folder: LogFolder) -> None:
    """After a restart, the last batch of a producer is still recognized as a retry."""
    log = folder.create()
    append(log, batch(sequence=0, producer_id=1, epoch=0))
    last = batch(2, sequence=1, producer_id=1, epoch=0)
    append(log, last)
    folder.restart()
    log = folder.log()
    assert append(log, last).first_offset == 1
    assert append(log, batch(sequence=3, producer_id=1, epoch=0)).first_offset == 3
    assert [header.base_offset for _, header in iterate_batches(read_bytes(log))] == [0, 1, 3]

"""Tests the removal of records by retention, DeleteRecords and truncation."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, found_by_time, read_all, read_bytes

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import LeaderEpoch, Millis, Offset


def _segmented(folder: LogFolder, count: int = 12, **config: Any) -> None:
    """Fills the log with segments of three records each, with one second between records."""
    log = folder.create(segment_bytes=3 * len(batch()), **config)
    for number in range(count):
        append(log, batch(timestamp_ms=NOW_MS + 1000 * number), now_ms=NOW_MS + 1000 * number)


def _offsets(folder: LogFolder) -> list[int]:
    return [record.offset for record in read_all(folder.log())]


def test_old_segments_go_and_their_files_follow_later(folder: LogFolder) -> None:
    """retention.ms removes old segments, and their files go file.delete.delay.ms later, because readers may still use
    them."""
    _segmented(folder, retention_ms=5000, file_delete_delay_ms=100)
    log = folder.log()
    now = Millis(NOW_MS + 11_000)
    folder.now_ms = now
    folder.directory.housekeep(now)
    assert (log.log_start_offset, log.segment_count) == (6, 2)
    assert _offsets(folder) == list(range(6, 12))
    retired = sorted(path.name for path in log.directory.iterdir() if path.name.endswith(".deleted"))
    assert [name[:20] for name in retired] == [f"{base:020d}" for base in (0, 0, 0, 3, 3, 3)]
    with pytest.raises(KafkaError) as refused:
        log.read(Offset(5), 100, upper_bound=log.high_watermark, minimum_one_batch=True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    folder.directory.housekeep(Millis(now + 100))
    folder.directory.wait_for_background()
    assert not [path for path in log.directory.iterdir() if path.name.endswith(".deleted")]
    assert not (log.directory / f"{3:020d}.snapshot").exists()


def test_even_the_active_segment_goes_when_it_is_too_old(folder: LogFolder) -> None:
    """An active segment that is too old is replaced by a new one, and offsets continue."""
    _segmented(folder, retention_ms=5000)
    log = folder.log()
    assert log.delete_old_segments(Millis(NOW_MS + 60_000)) == 4
    assert (log.log_start_offset, log.log_end_offset, log.segment_count) == (12, 12, 1)
    assert append(log).first_offset == 12
    folder.restart()
    assert folder.log().log_start_offset == 12
    assert _offsets(folder) == [12]


def test_a_log_is_kept_within_its_size(folder: LogFolder) -> None:
    """retention.bytes removes whole segments."""
    _segmented(folder, retention_ms=-1, retention_bytes=7 * len(batch()))
    assert folder.log().delete_old_segments(NOW_MS) == 1
    assert folder.log().log_start_offset == 3


def test_what_is_not_committed_stays(folder: LogFolder) -> None:
    """Retention never moves the log start offset past the high watermark."""
    log = folder.create(segment_bytes=len(batch()), retention_ms=0)
    for _ in range(4):
        log.appender.append_as_leader(batch(), leader_epoch=LeaderEpoch(0), now_ms=NOW_MS)
    log.advance_high_watermark(Offset(2))
    assert log.delete_old_segments(Millis(NOW_MS + 1000)) == 2
    assert log.log_start_offset == 2


def test_compacted_logs_are_kept_whole(folder: LogFolder) -> None:
    """Without `delete` in the policy, age and size remove no segment."""
    _segmented(folder, retention_ms=0, cleanup_policy=frozenset({"compact"}))
    assert folder.log().delete_old_segments(Millis(NOW_MS + 10**9)) == 0


def test_deleted_records_are_gone_at_once_and_stay_gone(folder: LogFolder) -> None:
    """KIP-107: deleted records are gone at once, also within a batch, and stay gone after a restart and a crash."""
    log = folder.create()
    append(log, batch(10))
    assert log.delete_records_before(Offset(4)) == 4
    assert log.delete_records_before(Offset(2)) == 4
    with pytest.raises(KafkaError) as refused:
        log.read(Offset(3), 100, upper_bound=Offset(10), minimum_one_batch=True)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert _offsets(folder) == [4, 5, 6, 7, 8, 9]
    folder.restart()
    assert folder.log().log_start_offset == 4
    folder.directory.checkpoint().result()
    folder.crash()
    assert folder.log().log_start_offset == 4


def test_records_above_the_high_watermark_can_not_be_deleted(folder: LogFolder) -> None:
    """DeleteRecords above the high watermark is refused with OFFSET_OUT_OF_RANGE."""
    log = folder.create()
    append(log)
    with pytest.raises(KafkaError) as refused:
        log.delete_records_before(Offset(2))
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_segments_below_the_log_start_offset_go(folder: LogFolder) -> None:
    """Segments below the log start offset are removed, also without a retention limit."""
    _segmented(folder, retention_ms=-1)
    log = folder.log()
    log.delete_records_before(Offset(7))
    assert log.delete_old_segments(NOW_MS) == 2
    assert [int(path.stem) for path in folder.log_files()] == [6, 9]
    assert log.log_start_offset == 7


def test_leader_epochs_below_the_log_start_offset_are_forgotten(folder: LogFolder) -> None:
    """Leader epochs below the log start offset are removed, and the epoch at that offset begins there."""
    log = folder.create()
    for epoch in (1, 1, 2, 2, 5):
        append(log, leader_epoch=epoch)
    log.delete_records_before(Offset(3))
    assert log.leader_epochs == ((2, 3), (5, 4))
    assert log.leader_epoch_at_start() == 2


@pytest.mark.parametrize("offset", [0, 1, 3, 5, 6, 11])
def test_a_truncated_log_ends_before_the_batch_of_the_offset(folder: LogFolder, offset: int) -> None:
    """I7: a truncated log is a prefix that ends before the offset's batch, and appends continue there."""
    log = folder.create(segment_bytes=3 * len(batch(2)))
    for number in range(6):
        append(log, batch(2, sequence=2 * number, producer_id=1, epoch=0), leader_epoch=number // 2)
    before = read_bytes(log)
    log.flush()
    assert log.truncate_to(Offset(offset), NOW_MS)
    end = offset // 2 * 2
    assert (log.log_end_offset, log.high_watermark) == (end, end)
    assert log.recovery_point <= end
    assert log.latest_epoch == (-1 if end == 0 else (end - 1) // 4)
    assert read_bytes(log) == before[: len(before) * end // 12]
    assert append(log, batch(2, sequence=end, producer_id=1, epoch=0), leader_epoch=9).first_offset == end
    folder.crash()
    assert folder.log().log_end_offset == end + 2


def test_truncating_at_or_behind_the_end_changes_nothing(folder: LogFolder) -> None:
    """A truncation at the log end removes no record, but removes epochs without records."""
    log = folder.create()
    append(log)
    log.assign_leader_epoch(LeaderEpoch(7))
    assert not log.truncate_to(Offset(1), NOW_MS)
    assert log.latest_epoch == 0


def test_a_crash_during_a_truncation_does_not_look_like_damage(folder: LogFolder) -> None:
    """A truncation lowers the recovery point first, so that the log is not taken for damaged after a crash."""
    log = folder.create()
    for _ in range(5):
        append(log)
    log.flush()
    folder.directory.checkpoint().result()
    log.truncate_to(Offset(2), NOW_MS)
    folder.crash()
    assert not folder.log().is_offline
    assert folder.log().log_end_offset == 2


def test_a_crash_after_a_truncation_within_a_batch_does_not_look_like_damage(folder: LogFolder) -> None:
    """A truncation within a batch lowers the recovery point to the beginning of the batch, where the log then ends."""
    log = folder.create()
    append(log, batch(4))
    log.flush()
    folder.directory.checkpoint().result()
    log.truncate_to(Offset(2), NOW_MS)
    append(log)
    folder.crash()
    assert not folder.log().is_offline
    assert folder.log().log_end_offset == 1


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_a_damaged_index_does_not_prevent_a_truncation(folder: LogFolder, suffix: str) -> None:
    """A truncation rebuilds a damaged index, as a read and an append do: what the index tells is in the log."""
    log = folder.create(index_interval_bytes=0)
    for number in range(6):
        append(log, batch(2, timestamp_ms=NOW_MS + number))
    before = read_bytes(log, 0)
    folder.restart()
    path = folder.log_files()[0].with_suffix(suffix)
    path.write_bytes((path.read_bytes() if path.exists() else b"") + b"\x01")
    log = folder.log()
    assert log.truncation.offsets_after_cut(Offset(6)) is not None
    assert log.truncate_to(Offset(6), NOW_MS)
    assert (log.log_end_offset, log.offline_reason) == (6, None)
    assert read_bytes(log, 0) == before[: len(before) // 2]
    assert append(log, batch(timestamp_ms=NOW_MS + 9)).first_offset == 6
    assert found_by_time(log.search_timestamp(Millis(NOW_MS + 5))) == (NOW_MS + 9, 6, 0)

"""Tests what the checkpoints name before logs are truncated."""

from __future__ import annotations

import errno
from concurrent.futures import Future

import pytest
from tests.support.failing_calls import failing
from tests.support.log_folder import NOW_MS, ORDERS, LogFolder, append
from tests.support.slices import finish

from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.storage.checkpoints import (
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_OFFSET_FILE,
    read_offsets,
)
from klamm.storage.log.log import Log
from klamm.storage.log.log_services import LogOffsets

_OTHER = TopicPartition("others", PartitionIndex(0))


def _log(folder: LogFolder, topic_partition: TopicPartition = ORDERS) -> Log:
    log = folder.create(topic_partition)
    for _ in range(10):
        append(log)
    log.flush()
    return log


def _note(folder: LogFolder, truncations: dict[Log, LogOffsets]) -> None:
    written: Future[None] = finish(folder.directory.truncations.note_in_steps(truncations))
    written.result()


def _on_disk(folder: LogFolder, topic_partition: TopicPartition = ORDERS) -> tuple[int, int, int]:
    recovery_point, start, high_watermark = (
        read_offsets(folder.path / name).get(topic_partition, -1)
        for name in (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, REPLICATION_OFFSET_FILE)
    )
    return recovery_point, start, high_watermark


def _cut(log: Log, offset: int) -> LogOffsets:
    offsets = log.truncation.offsets_after_cut(Offset(offset))
    assert offsets is not None
    return offsets


def test_one_write_is_enough_for_many_logs(folder: LogFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What several truncations will leave is on the disk before the first log is cut; the cuts write nothing more."""
    logs = [_log(folder, TopicPartition("many", PartitionIndex(index))) for index in range(20)]
    _note(folder, {log: _cut(log, 4) for log in logs})
    assert {_on_disk(folder, log.topic_partition) for log in logs} == {(4, 0, 4)}
    written: list[object] = []
    monkeypatch.setattr(folder.directory.names, "write_durably", written.append, raising=False)
    for log in logs:
        log.truncate_to(Offset(4), NOW_MS)
    assert written == []


def test_a_checkpoint_in_between_keeps_what_was_noted(folder: LogFolder) -> None:
    """Another checkpoint between the note and the cut would otherwise name the former offsets, and a crash after the
    cut would look like a loss."""
    log = _log(folder)
    _note(folder, {log: _cut(log, 4)})
    folder.directory.checkpoint().result()
    assert _on_disk(folder) == (4, 0, 4)
    log.truncate_to(Offset(4), NOW_MS)
    folder.crash()
    assert not folder.log().is_offline
    assert folder.log().log_end_offset == 4


def test_what_was_noted_is_forgotten(folder: LogFolder) -> None:
    """A truncation that does not take place leaves no trace: the next checkpoint names the log's own offsets."""
    log = _log(folder)
    _note(folder, {log: _cut(log, 4)})
    folder.directory.truncations.forget([log])
    folder.directory.checkpoint().result()
    assert _on_disk(folder) == (10, 0, 10)


def test_a_note_does_not_cover_another_truncation(folder: LogFolder) -> None:
    """A log that is cut lower than was noted writes again before the cut."""
    log = _log(folder)
    _note(folder, {log: _cut(log, 6)})
    log.truncate_to(Offset(3), NOW_MS)
    assert _on_disk(folder) == (3, 0, 3)


def test_a_log_of_the_same_name_has_its_own_offsets(folder: LogFolder) -> None:
    """A note of a log that was deleted meanwhile says nothing about a new topic of that name."""
    log = _log(folder)
    folder.create(_OTHER)
    _note(folder, {log: log.truncation.offsets_after_restart(Offset(500))})
    assert _on_disk(folder) == (10, 500, 10)
    folder.directory.delete(ORDERS)
    new = folder.create()
    append(new)
    folder.directory.checkpoint().result()
    assert _on_disk(folder) == (0, 0, 1)


def test_what_can_t_be_written_counts_as_not_noted(folder: LogFolder) -> None:
    """A full disk refuses the note. The truncation itself tries again, and succeeds once there is space."""
    log = _log(folder)
    with failing("replace", errno.ENOSPC), pytest.raises(OSError, match="No space left"):
        _note(folder, {log: _cut(log, 4)})
    log.truncate_to(Offset(4), NOW_MS)
    assert _on_disk(folder) == (4, 0, 4)


def test_a_truncation_that_changes_nothing_noted_needs_no_note(folder: LogFolder) -> None:
    """Records that are neither synced nor committed are not in the checkpoints."""
    log = _log(folder)
    append(log)
    log.state.high_watermark = Offset(10)
    assert log.truncation.offsets_after_cut(Offset(10)) is None
    assert log.truncation.offsets_after_cut(Offset(11)) is None


def _purged(folder: LogFolder, due_in_ms: int) -> Log:
    """Returns a log whose first segment begins at offset 6, with files of deleted segments."""
    log = folder.create(segment_bytes=150, file_delete_delay_ms=due_in_ms)
    for _ in range(10):
        append(log)
    log.flush()
    log.retention.delete_records_before(Offset(6))
    assert log.delete_old_segments(NOW_MS) == 6
    return log


def test_a_log_that_was_truncated_below_its_first_segment_keeps_what_follows(folder: LogFolder) -> None:
    """After a truncation below the first segment, a checkpoint names the new start, and no name of a deleted segment
    contains the former one: a start would drop the records that the log gets next."""
    log = _purged(folder, 60_000)
    _note(folder, {log: _cut(log, 2)})
    assert _on_disk(folder) == (2, 6, 2)
    log.truncate_to(Offset(2), NOW_MS)
    append(log)
    log.flush()
    folder.directory.checkpoint().result()
    assert _on_disk(folder)[1] == 2
    folder.crash()
    assert (folder.log().log_start_offset, folder.log().log_end_offset) == (2, 3)


def test_deleted_segments_stay_while_a_truncation_is_noted(folder: LogFolder) -> None:
    """The checkpoints name the log start offset from when the truncation was noted. So the files of segments that were
    deleted since are kept: without them, a start after a crash would miss records."""
    log = folder.create(segment_bytes=150, file_delete_delay_ms=0)
    for _ in range(10):
        append(log)
    log.flush()
    _note(folder, {log: _cut(log, 9)})
    log.retention.delete_records_before(Offset(6))
    folder.directory.housekeep(folder.now_ms)
    folder.advance(1000)
    folder.directory.housekeep(folder.now_ms)
    folder.directory.wait_for_background()
    assert _on_disk(folder)[1] == 0
    folder.crash()
    assert folder.log().offline_reason is None
    assert folder.log().log_start_offset == 6

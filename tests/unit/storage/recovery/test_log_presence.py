"""Tests that a partition with missing data is offline, and that the reason says what to do next."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.log_folder import NOW_MS, ORDERS, TOPIC_ID, LogFolder, append, batch, read_all

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, Offset, PartitionIndex, TopicPartition
from klamm.storage.directory.offset_checkpoints import OffsetCheckpoints
from klamm.storage.log.log import Log

needs_page_cache = pytest.mark.skipif(sys.platform != "linux", reason="only Linux identifies its page cache")

STARTS = "log-start-offset-checkpoint"


def _filled(path: Path) -> LogFolder:
    """Returns a synced log of four segments, the last of them with a single batch."""
    folder = LogFolder(path / "data")
    log = folder.create()
    for number in range(4):
        for _ in range(1 if number == 3 else 5):
            append(log, batch(2, timestamp_ms=NOW_MS + number))
        if number < 3:
            log.roll(NOW_MS)
    log.flush()
    folder.directory.wait_for_background()
    folder.directory.checkpoint().result()
    assert [int(path.stem) for path in folder.log_files()] == [0, 10, 20, 30]
    return folder


def _stop(folder: LogFolder) -> None:
    folder.directory.close()


def _kill(folder: LogFolder) -> None:
    folder.kill()


def _delete(path: Path) -> None:
    for each in path.parent.glob(f"{path.stem}.*"):
        each.unlink()


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _cut(path: Path) -> None:
    """Cuts the file between two batches, so that all remaining batches can be read."""
    os.truncate(path, path.stat().st_size // 5)


@pytest.mark.parametrize("end", [_stop, _kill])
@pytest.mark.parametrize(
    ("lose", "number", "said"),
    [
        (
            _delete,
            0,
            "begins with 00000000000000000010.log, but the log begins at offset 0: the segments with the offset",
        ),
        (_delete, 1, "00000000000000000000.log ends at offset 10, and the next segment begins at offset 20"),
        (_delete, 3, "00000000000000000020.log ends at offset 30, but records up to offset 32 were on the disk"),
        (_empty, 0, "00000000000000000000.log ends at offset 0, and the next segment begins at offset 10"),
        (_empty, 2, "00000000000000000020.log ends at offset 20, and the next segment begins at offset 30"),
        (_empty, 3, "00000000000000000030.log ends at offset 30, but records up to offset 32 were on the disk"),
        (_cut, 1, "00000000000000000010.log ends at offset 12, and the next segment begins at offset 20"),
    ],
)
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_segment_that_is_gone_takes_the_partition_offline(
    tmp_path: Path,
    lose: Callable[[Path], None],
    number: int,
    *,
    said: str,
    end: Callable[[LogFolder], None],
    policy: str,
) -> None:
    """I8: a segment that is deleted, emptied or cut takes the partition offline after a stop and after a kill.

    Each start reports it until a copy brings the segment back. The starts change no file, so that the copy completes
    the log.
    """
    folder = _filled(tmp_path)
    folder.config = folder.config.from_mapping({"cleanup.policy": policy}, folder.config)
    expected = read_all(folder.log())
    end(folder)
    copy = tmp_path / "copy"
    shutil.copytree(folder.path / str(ORDERS), copy)
    lose(folder.log_files()[number])
    for start in (folder.start, folder.restart, folder.crash):
        start()
        reason = folder.log().offline_reason or ""
        assert said in reason
        assert "Bring what is missing back from a copy" in reason
        with pytest.raises(KafkaError) as refused:
            append(folder.log())
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    folder.kill()
    shutil.rmtree(folder.path / str(ORDERS))
    shutil.copytree(copy, folder.path / str(ORDERS))
    folder.start()
    assert read_all(folder.log()) == expected
    folder.close()


@pytest.mark.parametrize("end", [_stop, _kill])
def test_a_folder_that_is_gone_takes_the_partition_offline(tmp_path: Path, end: Callable[[LogFolder], None]) -> None:
    """I8: a missing partition folder takes the partition offline at every start, and the topic can still be deleted."""
    folder = _filled(tmp_path)
    end(folder)
    copy = tmp_path / "copy"
    shutil.move(folder.path / str(ORDERS), copy)
    for start in (folder.start, folder.restart, folder.crash):
        start()
        assert folder.directory.find_lost({ORDERS: TOPIC_ID}, lambda _: folder.config) == [ORDERS]
        reason = folder.log().offline_reason or ""
        assert f"{folder.path / str(ORDERS)} is gone, but records up to offset 32 were on the disk" in reason
        assert "Bring what is missing back from a copy" in reason
        assert not (folder.path / str(ORDERS)).exists()
    folder.directory.delete(ORDERS)
    folder.directory.checkpoint().result()
    append(folder.create())
    folder.directory.delete(ORDERS)
    folder.directory.checkpoint().result()
    folder.kill()
    folder.start()
    assert folder.directory.find_lost({ORDERS: TOPIC_ID}, lambda _: folder.config) == []
    folder.close()


def _committed_but_not_synced(path: Path) -> LogFolder:
    """Returns a log with a checkpointed high watermark of 2 and the recovery point 0."""
    folder = LogFolder(path / "data")
    append(folder.create(), batch(2))
    folder.directory.owner.run.begin("second", kept="", recorded="")
    folder.directory.checkpoint().result()
    assert (folder.log().recovery_point, folder.log().high_watermark) == (0, 2)
    return folder


@needs_page_cache
def test_a_folder_with_committed_records_that_is_gone_after_a_kill_is_a_loss(tmp_path: Path) -> None:
    """I3, I8: a high watermark proves after a kill that a missing folder had records, although no sync has followed.

    Otherwise the broker would count as a replica with all committed records, and be elected with an empty log. Each
    later start reports the loss, also after a power failure."""
    folder = _committed_but_not_synced(tmp_path)
    folder.kill()
    shutil.rmtree(folder.path / str(ORDERS))
    for start in (folder.start, folder.restart, folder.crash):
        start()
        assert folder.directory.find_lost({ORDERS: TOPIC_ID}, lambda _: folder.config) == [ORDERS]
        assert folder.log().is_unread
        assert "is gone, but records up to offset 2 were on the disk" in (folder.log().offline_reason or "")
        folder.directory.checkpoint().result()
        folder.directory.owner.run.distrust()
    replaced = folder.directory.replace(ORDERS, TOPIC_ID, folder.config)
    assert (replaced.offline_reason, replaced.log_end_offset) == (None, 0)
    folder.kill()
    shutil.rmtree(folder.path / str(ORDERS))
    folder.start()
    assert folder.directory.find_lost({ORDERS: TOPIC_ID}, lambda _: folder.config) == []
    folder.close()


@needs_page_cache
def test_a_folder_that_never_reached_the_disk_is_no_loss_after_a_power_failure(tmp_path: Path) -> None:
    """A power failure may take a new folder, and leave the checkpoint that names its high watermark. All replicas may
    lose it in this way, so the partition must get a leader again."""
    folder = _committed_but_not_synced(tmp_path)
    folder.kill()
    shutil.rmtree(folder.path / str(ORDERS))
    folder.directory.owner.run.distrust()  # as if the mark named another page cache
    folder.start()
    assert folder.directory.find_lost({ORDERS: TOPIC_ID}, lambda _: folder.config) == []
    folder.close()


@needs_page_cache
def test_the_high_watermark_of_a_deleted_topic_is_no_proof(tmp_path: Path) -> None:
    """A new log under the name of a deleted topic makes the checkpoints forget the high watermark of the old one."""
    folder = _committed_but_not_synced(tmp_path)
    folder.directory.delete(ORDERS)
    folder.create()
    folder.kill()
    shutil.rmtree(folder.path / str(ORDERS))
    folder.start()
    assert folder.directory.find_lost({ORDERS: TOPIC_ID}, lambda _: folder.config) == []
    folder.close()


def test_nothing_is_removed_from_a_log_that_lacks_a_segment(tmp_path: Path) -> None:
    """No file is removed from a log that lacks a segment, because a restored segment needs its index files."""
    folder = _filled(tmp_path)
    folder.directory.close()
    path = folder.log_files()[1]
    (path.parent / f"{path.stem}.txnindex").write_bytes(b"")
    path.rename(tmp_path / path.name)
    before = {each.name for each in path.parent.iterdir()}
    folder.start()
    assert folder.log().is_offline
    assert {each.name for each in path.parent.iterdir()} == before
    folder.close()


def test_a_folder_that_never_had_records_is_no_loss(tmp_path: Path) -> None:
    """A missing folder of a new or empty partition is no loss."""
    folder = LogFolder(tmp_path / "data")
    folder.create()
    folder.restart()
    folder.kill()
    shutil.rmtree(folder.path / str(ORDERS))
    folder.start()
    others = TopicPartition("others", PartitionIndex(0))
    assert folder.directory.find_lost({ORDERS: TOPIC_ID, others: TOPIC_ID}, lambda _: folder.config) == []
    folder.close()


def test_a_topic_that_takes_the_name_of_a_deleted_one_is_not_lost(tmp_path: Path) -> None:
    """A new topic with a deleted topic's name is not reported as lost if a kill comes before its folder is created."""
    folder = _filled(tmp_path)
    folder.directory.delete(ORDERS)
    steps = folder.directory.names.forget_in_steps(["orders"])
    while True:
        try:
            next(steps)
        except StopIteration as end:
            end.value.result()
            break
    folder.kill()
    folder.start()
    assert folder.directory.find_lost({ORDERS: TOPIC_ID}, lambda _: folder.config) == []
    folder.close()


def test_a_stray_leaves_nothing_noted_of_its_name(tmp_path: Path) -> None:
    """A topic is not reported as lost if a kill comes after a stray folder of its name was renamed."""
    folder = _filled(tmp_path)
    folder.restart()
    other_id = type(TOPIC_ID)(bytes(reversed(TOPIC_ID)))
    assert folder.directory.find_lost({ORDERS: other_id}, lambda _: folder.config) == []
    assert len(folder.directory.set_strays_aside({ORDERS: other_id})) == 1
    folder.kill()
    folder.start()
    assert folder.directory.find_lost({ORDERS: other_id}, lambda _: folder.config) == []
    folder.close()


def test_a_log_whose_start_was_not_noted_may_begin_anywhere(tmp_path: Path) -> None:
    """A log without a checkpointed log start offset may begin at any offset, as in a directory of Apache Kafka."""
    folder = _filled(tmp_path)
    folder.directory.close()
    (folder.path / STARTS).write_text("0\n0\n")
    _delete(folder.log_files()[0])
    folder.start()
    assert (folder.log().offline_reason, folder.log().log_start_offset) == (None, 10)
    folder.close()


def test_an_unread_log_does_not_note_where_it_begins(tmp_path: Path) -> None:
    """An offline log checkpoints no log start offset; otherwise it would later seem to lack its beginning."""
    folder = _filled(tmp_path)
    folder.directory.close()
    (folder.path / STARTS).write_text("0\n0\n")
    first, *_, last = folder.log_files()
    _delete(first)
    content = last.read_bytes()
    _empty(last)
    folder.start()
    assert folder.log().is_offline
    folder.restart()
    folder.kill()
    last.write_bytes(content)
    folder.start()
    assert (folder.log().offline_reason, folder.log().log_start_offset) == (None, 10)
    folder.close()


# -- files that the broker removes -------------------------------------------------------------------------------------


def _retained(path: Path) -> LogFolder:
    folder = _filled(path)
    log = folder.log()
    log.update_config(log.config.from_mapping({"retention.ms": "1000", "file.delete.delay.ms": "0"}, log.config))
    folder.now_ms = Millis(NOW_MS + 1_002)
    return folder


def test_deleted_segments_keep_a_name_until_the_log_start_is_on_the_disk(tmp_path: Path) -> None:
    """Deleted segments keep a renamed file until the log start offset is checkpointed, so that a kill in between is no
    loss.

    The deleted records do not come back.
    """
    folder = _retained(tmp_path)
    log = folder.log()
    assert log.delete_old_segments(folder.now_ms) == 2
    names = sorted(path.name for path in log.directory.glob("*.deleted") if ".log." in path.name)
    assert names == [f"{base:020d}.log.{20:020d}.deleted" for base in (0, 10)]
    for _ in range(2):
        folder.crash()
        assert (folder.log().offline_reason, folder.log().log_start_offset) == (None, 20)
    for _ in range(2):
        folder.directory.housekeep(folder.now_ms)
        folder.directory.wait_for_background()
    assert not list(folder.log().directory.glob("*.deleted"))
    assert "orders 0 20\n" in (folder.path / STARTS).read_text()
    folder.crash()
    assert (folder.log().offline_reason, folder.log().log_start_offset) == (None, 20)
    _delete(folder.log_files()[0])
    folder.crash()
    assert folder.log().is_offline
    folder.close()


def test_a_start_that_ends_at_once_forgets_nothing(tmp_path: Path) -> None:
    """Renamed files stay until a start has checkpointed the log start offset, even if several starts are killed."""
    folder = _retained(tmp_path)
    folder.log().delete_old_segments(folder.now_ms)
    for _ in range(3):
        folder.crash()
        assert folder.log().offline_reason is None
    folder.restart()
    assert folder.log().offline_reason is None
    assert not list(folder.log().directory.glob("*.deleted"))
    folder.close()


def test_a_full_disk_gets_its_space_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, where no checkpoint can be written, deleted segment files are emptied, and removed later."""
    folder = _retained(tmp_path)
    log = folder.log()
    log.delete_old_segments(folder.now_ms)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(OffsetCheckpoints, "write", refuse)
        folder.directory.housekeep(folder.now_ms)
        folder.directory.wait_for_background()
    left = list(log.directory.glob("*.deleted"))
    assert sorted(path.name for path in left) == [f"{base:020d}.log.{20:020d}.deleted" for base in (0, 10)]
    assert not any(path.stat().st_size for path in left)
    folder.crash()
    assert (folder.log().offline_reason, folder.log().log_start_offset) == (None, 20)
    for _ in range(2):
        folder.directory.housekeep(folder.now_ms)
        folder.directory.wait_for_background()
    assert not list(folder.log().directory.glob("*.deleted"))
    folder.close()


def _delete_records(log: Log) -> None:
    log.delete_records_before(Offset(25))
    log.delete_old_segments(NOW_MS)


def test_deleted_records_are_no_loss(tmp_path: Path) -> None:
    """Records and segments that DeleteRecords removed are no loss."""
    folder = _filled(tmp_path)
    _delete_records(folder.log())
    folder.crash()
    assert folder.log().offline_reason is None
    assert folder.log().log_start_offset >= 20
    _delete_records(folder.log())
    folder.restart()
    assert (folder.log().offline_reason, folder.log().log_start_offset) == (None, 25)
    folder.close()


def test_an_empty_last_segment_is_right_after_a_roll(tmp_path: Path) -> None:
    """An empty last segment is no damage after a roll, or if its records were not synced."""
    folder = LogFolder(tmp_path / "data")
    append(folder.create(), batch(3))
    folder.log().roll(NOW_MS)
    for start in (folder.crash, folder.restart):
        start()
        assert (folder.log().offline_reason, folder.log().log_end_offset) == (None, 3)
    append(folder.log())
    folder.kill()
    _empty(folder.log_files()[-1])
    folder.start()
    assert (folder.log().offline_reason, folder.log().log_end_offset) == (None, 3)
    folder.close()


def test_lost_files_of_deleted_records_are_no_damage(tmp_path: Path) -> None:
    """If all records that were synced are deleted, no missing file is damage: the log begins empty at its start.

    A power failure may keep some renames of deleted files, not others, and not the name of the new segment.
    """
    folder = _filled(tmp_path)
    folder.log().following.restart_at(Offset(100), NOW_MS)
    folder.kill()
    first = folder.path / str(ORDERS) / f"{0:020d}.log"
    first.with_name(first.name + ".deleted").rename(first)
    for path in first.parent.glob(f"{100:020d}.*"):
        path.unlink()
    folder.start()
    log = folder.log()
    assert not log.is_offline
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    folder.close()

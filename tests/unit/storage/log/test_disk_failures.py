"""Tests full and failing disks: acknowledged records stay readable, and others do not appear."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.failing_calls import failing
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, found_by_time, read_all

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis
from klamm.storage.atomic_file import write_atomically
from klamm.storage.log.log import Log


def _assert_storage_error(call: Callable[[], object]) -> None:
    with pytest.raises(KafkaError) as refused:
        call()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("after_bytes", [0, 1, 40, 90])
def test_a_failed_write_leaves_nothing(folder: LogFolder, error: int, after_bytes: int) -> None:
    """After a failed write the log cuts the torn bytes, and appends work again without a restart."""
    log = folder.create(index_interval_bytes=0)
    append(log, batch(2, sequence=0, producer_id=1, epoch=0))
    size = log.size_bytes
    with failing("pwritev", error, after_bytes=after_bytes):
        for _ in range(2):
            _assert_storage_error(lambda: append(log, batch(2, sequence=2, producer_id=1, epoch=0)))
        assert len(read_all(log)) == 2
    assert folder.log_files()[0].stat().st_size == log.size_bytes == size
    assert append(log, batch(2, sequence=2, producer_id=1, epoch=0)).first_offset == 2
    folder.crash()
    assert [record.offset for record in read_all(folder.log())] == [0, 1, 2, 3]


def test_a_log_that_can_not_be_cut_back_is_offline(folder: LogFolder) -> None:
    """A log that cannot cut its torn bytes goes offline, so that no batch follows them; recovery cuts the bytes."""
    log = folder.create()
    append(log)
    with failing("pwritev", errno.EIO, after_bytes=30), failing("ftruncate", errno.EIO):
        _assert_storage_error(lambda: append(log))
    assert "can't be cut back" in (log.offline_reason or "")
    _assert_storage_error(lambda: append(log))
    folder.crash()
    assert append(folder.log()).first_offset == 1


def test_a_roll_that_fails_leaves_the_log_as_it_was(folder: LogFolder) -> None:
    """A failed roll leaves no files of a new segment, and the next append tries the roll again."""
    log = folder.create(segment_bytes=150)
    append(log)
    names = sorted(os.listdir(log.directory))
    with failing("open", errno.ENOSPC):
        _assert_storage_error(lambda: append(log))
    assert sorted(os.listdir(log.directory)) == names
    assert len(read_all(log)) == 1
    for _ in range(3):
        append(log)
    assert [record.offset for record in read_all(log)] == [0, 1, 2, 3]


def test_an_index_that_can_not_be_written_waits(folder: LogFolder) -> None:
    """If the index cannot be written, the log still rolls and syncs, and writes the index later.

    No snapshot is written before the index, because a snapshot vouches for it.
    """
    log = folder.create(index_interval_bytes=0)
    for _ in range(5):
        append(log)
    index = folder.log_files()[0].with_suffix(".index")
    with failing("pwrite", errno.ENOSPC):
        log.roll(NOW_MS)
        append(log)
        log.flush()
        folder.directory.wait_for_background()
        assert log.recovery_point == 6
        assert index.stat().st_size == 0
        assert not list(log.directory.glob("*.snapshot"))
    assert len(read_all(log, 3)) == 3
    append(log)
    log.flush()
    assert index.stat().st_size == 32
    assert [path.stem for path in log.directory.glob("*.snapshot")] == [f"{5:020d}"]


@pytest.mark.parametrize("name", ["fdatasync", "fsync"])
def test_a_failed_sync_takes_the_log_offline_for_good(folder: LogFolder, name: str) -> None:
    """A failed sync takes the log offline. A second sync might report success for pages that the first one lost."""
    log = folder.create()
    append(log)
    with failing(name, errno.EIO, times=1):
        _assert_storage_error(log.flush)
    assert "can't be synced" in (log.offline_reason or "")
    assert log.recovery_point == 0
    _assert_storage_error(log.flush)
    _assert_storage_error(lambda: append(log))


def test_a_failed_sync_in_the_background_takes_the_log_offline(folder: LogFolder) -> None:
    """A failed sync in the background takes the log offline, and the next append is refused."""
    log = folder.create()
    append(log)
    with failing("fdatasync", errno.EIO):
        log.roll(NOW_MS)
        folder.directory.wait_for_background()
    _assert_storage_error(lambda: append(log))


def test_a_batch_that_must_last_is_not_acknowledged_without(folder: LogFolder) -> None:
    """With flush.messages=1, an append whose sync fails is not acknowledged."""
    log = folder.create(flush_messages=1)
    append(log)
    with failing("fdatasync", errno.EIO):
        _assert_storage_error(lambda: append(log))
    assert log.recovery_point == 1


def test_a_file_whose_sync_failed_is_not_written_again(tmp_path: Path) -> None:
    """After a failed sync, the next attempt writes a new file, because some pages of the first file may be lost."""
    path = tmp_path / "checkpoint"
    with failing("fsync", errno.EIO, times=1), pytest.raises(OSError, match="Input/output error"):
        write_atomically(path, b"first")
    (failed,) = tmp_path.iterdir()
    with failed.open("rb") as file:
        write_atomically(path, b"second")
        assert path.read_bytes() == b"second"
        assert file.read() == b"first"


def test_a_stop_without_a_sync_is_no_clean_one(folder: LogFolder) -> None:
    """A stop whose sync fails leaves no mark of a clean stop, so that the next start runs a recovery."""
    append(folder.create())
    with failing("fdatasync", errno.EIO):
        folder.directory.close()
    assert not (folder.path / ".kafka_cleanshutdown").exists()
    folder.start()
    assert len(read_all(folder.log())) == 1


def test_a_read_that_fails_is_reported(folder: LogFolder) -> None:
    """A failed read is answered with KAFKA_STORAGE_ERROR, and the log stays online."""
    log = folder.create()
    append(log)
    with failing("pread", errno.EIO):
        _assert_storage_error(lambda: read_all(log))
    assert len(read_all(log)) == 1


def test_a_topic_that_can_not_be_made_leaves_no_folder(folder: LogFolder) -> None:
    """A topic that a full disk refuses leaves no folder, and can be created later."""
    with failing("open", errno.ENOSPC):
        _assert_storage_error(folder.create)
    assert not (folder.path / "orders-0").exists()
    assert append(folder.create()).first_offset == 0


def _log_with_a_torn_index(folder: LogFolder, suffix: str) -> tuple[Log, Path]:
    """Returns a log with records at three times, and the path of an index of its first segment that lacks one byte."""
    log = folder.create(index_interval_bytes=0)
    for timestamp_ms in (NOW_MS, NOW_MS + 10, NOW_MS + 20):
        append(log, batch(timestamp_ms=timestamp_ms))
    log.roll(NOW_MS)
    folder.restart()
    log = folder.log()
    log.advance_high_watermark(log.log_end_offset)
    path = log.directory / f"{0:020d}{suffix}"
    path.write_bytes(path.read_bytes()[:-1])
    return log, path


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_that_could_not_be_built_anew_are_built_by_the_next_read(folder: LogFolder, suffix: str) -> None:
    """I9: if the rebuild of a torn index fails, the read fails too, and the next read rebuilds the index."""
    log, _ = _log_with_a_torn_index(folder, suffix)
    for call in ("pread", "open"):
        with failing(call, errno.EIO, only_to_make=False):
            _assert_storage_error(lambda: found_by_time(log.search_timestamp(Millis(NOW_MS + 15))))
    assert found_by_time(log.search_timestamp(Millis(NOW_MS + 15))) == (NOW_MS + 20, 2, 0)


def test_an_append_after_a_search_builds_a_damaged_index_anew(folder: LogFolder) -> None:
    """I9: a search beyond the largest timestamp reads one of the indexes only. An append reads the other one, too, and
    rebuilds it."""
    log = folder.create(index_interval_bytes=0)
    for timestamp_ms in (NOW_MS, NOW_MS + 10, NOW_MS + 20):
        append(log, batch(timestamp_ms=timestamp_ms))
    folder.restart()
    log = folder.log()
    path = log.directory / f"{0:020d}.index"
    path.write_bytes(path.read_bytes()[:-1])
    assert found_by_time(log.search_timestamp(Millis(NOW_MS + 30))) is None
    assert append(log, batch()).first_offset == 3


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_indexes_are_built_anew_on_a_full_disk_too(folder: LogFolder, suffix: str, call: str) -> None:
    """On a full disk a rebuilt index is kept in memory, and its file stays as it was, because a partial one would be
    trusted."""
    log, path = _log_with_a_torn_index(folder, suffix)
    torn = path.read_bytes()
    with failing(call, errno.ENOSPC):
        for _ in range(2):
            assert found_by_time(log.search_timestamp(Millis(NOW_MS + 15))) == (NOW_MS + 20, 2, 0)
    assert path.read_bytes() == torn


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_log_with_a_torn_index_takes_records_at_once(folder: LogFolder, suffix: str) -> None:
    """The first append rebuilds a torn index, and succeeds."""
    log = folder.create(index_interval_bytes=0)
    for _ in range(3):
        append(log)
    folder.restart()
    path = folder.log().directory / f"{0:020d}{suffix}"
    path.write_bytes(path.read_bytes()[:-1])
    assert append(folder.log()).first_offset == 3


def test_a_full_disk_does_not_keep_old_segments(folder: LogFolder) -> None:
    """If all segments are too old and the disk has no room for a new active one, the others are deleted nevertheless:
    they make the room."""
    log = folder.create(retention_ms=1000, segment_bytes=150)
    for _ in range(3):
        append(log)
    now_ms = Millis(NOW_MS + 2000)
    folder.directory.wait_for_background()  # the flushes after the rolls make files, too
    with failing("open", errno.ENOSPC):
        assert log.delete_old_segments(now_ms) == 2
        assert (log.log_start_offset, log.log_end_offset) == (2, 3)
        _assert_storage_error(lambda: log.delete_old_segments(now_ms))
    assert log.delete_old_segments(now_ms) == 1
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)

"""A disk that is full, that fails, that lies: what was acknowledged stays readable, what was not is not there."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, read_all

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.storage.atomic_file import write_atomically

Failing = Callable[..., Any]


@contextmanager
def _failing(name: str, error: int, *, after_bytes: int = 0, times: int = 10**6) -> Iterator[None]:
    """Calls of `os.<name>` fail; a write lets some bytes through first, and only files to be made can't be opened."""
    real = getattr(os, name)
    left = times

    def fail(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        if left == 0 or (name == "open" and not arguments[1] & os.O_CREAT):
            return real(*arguments, **options)
        left -= 1
        if after_bytes:
            descriptor, buffers, position = arguments
            os.pwrite(descriptor, b"".join(buffers)[:after_bytes], position)
        raise OSError(error, os.strerror(error))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, name, fail)
        yield


def _assert_storage_error(call: Callable[[], object]) -> None:
    with pytest.raises(KafkaError) as refused:
        call()
    assert refused.value.code is ErrorCode.kafka_storage_error


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("after_bytes", [0, 1, 40, 90])
def test_a_failed_write_leaves_nothing(folder: LogFolder, error: int, after_bytes: int) -> None:
    """Torn bytes are cut away, and writing goes on when there is room again, without a restart."""
    log = folder.create(index_interval_bytes=0)
    append(log, batch(2, sequence=0, producer_id=1, epoch=0))
    size = log.size_bytes
    with _failing("pwritev", error, after_bytes=after_bytes):
        for _ in range(2):
            _assert_storage_error(lambda: append(log, batch(2, sequence=2, producer_id=1, epoch=0)))
        assert len(read_all(log)) == 2
    assert folder.log_files()[0].stat().st_size == log.size_bytes == size
    assert append(log, batch(2, sequence=2, producer_id=1, epoch=0)).first_offset == 2
    folder.crash()
    assert [record.offset for record in read_all(folder.log())] == [0, 1, 2, 3]


def test_a_log_that_can_not_be_cut_back_is_offline(folder: LogFolder) -> None:
    """Nobody may write behind torn bytes; recovery cuts them."""
    log = folder.create()
    append(log)
    with _failing("pwritev", errno.EIO, after_bytes=30), _failing("ftruncate", errno.EIO):
        _assert_storage_error(lambda: append(log))
    assert "can't be cut back" in (log.offline_reason or "")
    _assert_storage_error(lambda: append(log))
    folder.crash()
    assert append(folder.log()).first_offset == 1


def test_a_roll_that_fails_leaves_the_log_as_it_was(folder: LogFolder) -> None:
    """No half segment, and the roll is tried again with the next batch."""
    log = folder.create(segment_bytes=150)
    append(log)
    names = sorted(os.listdir(log.directory))
    with _failing("open", errno.ENOSPC):
        _assert_storage_error(lambda: append(log))
    assert sorted(os.listdir(log.directory)) == names
    assert len(read_all(log)) == 1
    for _ in range(3):
        append(log)
    assert [record.offset for record in read_all(log)] == [0, 1, 2, 3]


def test_an_index_that_can_not_be_written_waits(folder: LogFolder) -> None:
    """The segment is rolled all the same, and its records are synced; no snapshot vouches for the index until it is
    there."""
    log = folder.create(index_interval_bytes=0)
    for _ in range(5):
        append(log)
    index = folder.log_files()[0].with_suffix(".index")
    with _failing("pwrite", errno.ENOSPC):
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
    """A second sync might report success for pages that the first one lost."""
    log = folder.create()
    append(log)
    with _failing(name, errno.EIO, times=1):
        _assert_storage_error(log.flush)
    assert "can't be synced" in (log.offline_reason or "")
    assert log.recovery_point == 0
    _assert_storage_error(log.flush)
    _assert_storage_error(lambda: append(log))


def test_a_failed_sync_in_the_background_takes_the_log_offline(folder: LogFolder) -> None:
    """Whoever notices it."""
    log = folder.create()
    append(log)
    with _failing("fdatasync", errno.EIO):
        log.roll(NOW_MS)
        folder.directory.wait_for_background()
    _assert_storage_error(lambda: append(log))


def test_a_batch_that_must_last_is_not_acknowledged_without(folder: LogFolder) -> None:
    """flush.messages=1 and a disk that does not sync."""
    log = folder.create(flush_messages=1)
    append(log)
    with _failing("fdatasync", errno.EIO):
        _assert_storage_error(lambda: append(log))
    assert log.recovery_point == 1


def test_a_file_whose_sync_failed_is_not_written_again(tmp_path: Path) -> None:
    """The next attempt makes a file of its own: of the first one's pages nobody knows which are on the disk."""
    path = tmp_path / "checkpoint"
    with _failing("fsync", errno.EIO, times=1), pytest.raises(OSError, match="Input/output error"):
        write_atomically(path, b"first")
    (failed,) = tmp_path.iterdir()
    with failed.open("rb") as file:
        write_atomically(path, b"second")
        assert path.read_bytes() == b"second"
        assert file.read() == b"first"


def test_a_stop_without_a_sync_is_no_clean_one(folder: LogFolder) -> None:
    """The next start looks through the log."""
    append(folder.create())
    with _failing("fdatasync", errno.EIO):
        folder.directory.close()
    assert not (folder.path / ".kafka_cleanshutdown").exists()
    folder.start()
    assert len(read_all(folder.log())) == 1


def test_a_read_that_fails_is_reported(folder: LogFolder) -> None:
    """KAFKA_STORAGE_ERROR, and the log stays online."""
    log = folder.create()
    append(log)
    with _failing("pread", errno.EIO):
        _assert_storage_error(lambda: read_all(log))
    assert len(read_all(log)) == 1


def test_a_topic_that_can_not_be_made_leaves_no_folder(folder: LogFolder) -> None:
    """A full disk refuses the topic, not the next one of that name."""
    with _failing("open", errno.ENOSPC):
        _assert_storage_error(folder.create)
    assert not (folder.path / "orders-0").exists()
    assert append(folder.create()).first_offset == 0

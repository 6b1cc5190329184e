"""Tests which files of a stop or a crash the next start may trust: see `storage/log/log_sync.py`."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, found_by_time
from tests.unit.storage.log.test_log_transactions import Writer, commit_all, consume

from klamm.protocol.types import Offset, ProducerId
from klamm.storage.log import log_producers, producer_snapshot
from klamm.storage.log.log import Log
from klamm.storage.segment.transaction_index import encode_entries

RECOVERY_POINTS = "recovery-point-offset-checkpoint"


def _refuse_indexes(patch: pytest.MonkeyPatch) -> None:
    """Makes the disk refuse index entries; batches and small files can still be written."""

    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    patch.setattr(os, "pwrite", fail)


def _path_of(descriptor: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}"))


def _aborted(folder: LogFolder) -> tuple[Log, Writer]:
    log, writer = folder.create(), Writer()
    writer.write(log, 1)
    writer.write(log, 0, is_transactional=False)
    writer.end(log, 1, is_commit=False)
    commit_all(log)
    return log, writer


def test_a_stop_that_could_not_write_the_indexes_vouches_for_none(folder: LogFolder) -> None:
    """I11: if a stop cannot write the indexes, the next start finds the aborted transactions in the log."""
    log, writer = _aborted(folder)
    log.flush()
    with pytest.MonkeyPatch.context() as patch:
        _refuse_indexes(patch)
        folder.directory.close()
    folder.start()
    commit_all(folder.log())
    assert consume(folder.log()) == writer.decided(folder.log())


def test_a_recovery_point_says_nothing_of_indexes(folder: LogFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """I11: a start does not trust a missing transaction index below the recovery point.

    A flush of the active segment leaves its indexes out, and the next segment begins at the recovery point.
    """
    log, writer = _aborted(folder)
    log.flush()
    folder.directory.checkpoint().result()
    assert (folder.path / RECOVERY_POINTS).read_text() == "0\n1\norders 0 3\n"
    monkeypatch.setattr(log._services, "run_in_background", lambda job: None)
    log.roll(NOW_MS)
    monkeypatch.undo()
    folder.kill()
    for path in log.directory.glob("*.txnindex"):
        path.unlink()  # a power failure takes the unsynced index
    folder.start()
    commit_all(folder.log())
    assert consume(folder.log()) == writer.decided(folder.log())


@pytest.mark.parametrize("is_deleted_first", [True, False])
def test_an_open_transaction_begins_where_it_did_however_the_log_is_cut(
    folder: LogFolder, is_deleted_first: bool
) -> None:
    """I11: an open transaction begins at its first record, even if DeleteRecords, a truncation and a crash follow.

    The truncation notes the new log start offset. The crash undoes a later deletion, and no read_committed consumer may
    see the restored records.
    """
    log, writer = folder.create(), Writer()
    writer.write(log, 1)
    writer.write(log, 0, is_transactional=False)
    writer.write(log, 1)
    writer.write(log, 0, is_transactional=False)
    commit_all(log)
    if is_deleted_first:
        log.delete_records_before(Offset(1))
    log.truncate_to(Offset(3), NOW_MS)
    if not is_deleted_first:
        log.delete_records_before(Offset(1))
    log.roll(NOW_MS)
    log.flush()
    folder.crash()
    log = folder.log()
    commit_all(log)
    start = 1 if is_deleted_first else 0
    assert (log.log_start_offset, log.last_stable_offset) == (start, start)


def test_an_empty_segment_has_no_aborted_transactions(folder: LogFolder) -> None:
    """I11: a start ignores the `.txnindex` of an empty segment.

    Here a power failure restores the index of a segment that was truncated, and new records take its offsets.
    """
    log, writer = folder.create(), Writer()
    writer.write(log, 0, size=3, is_transactional=False)
    commit_all(log)
    log.roll(NOW_MS)
    log.delete_records_before(Offset(3))
    log.delete_old_segments(NOW_MS)
    log.flush()
    folder.kill()
    for path in log.directory.glob("*.snapshot"):
        path.unlink()
    stale = (ProducerId(1), Offset(3), Offset(9), Offset(4))
    (log.directory / f"{3:020d}.txnindex").write_bytes(encode_entries([stale]))
    folder.start()
    log = folder.log()
    writer.write(log, 1)
    writer.end(log, 1, is_commit=True)
    commit_all(log)
    assert [offset for offset, _ in consume(log, start=3)] == [3]


def test_names_are_synced_before_a_snapshot_is_believed(folder: LogFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """I8: a start syncs the names of the files and of the folder before it trusts a snapshot.

    A flush writes the snapshot before it syncs the names. If the process is killed in between, a power failure may
    still take the folder.
    """
    log, _ = _aborted(folder)
    log.flush()
    log.roll(NOW_MS)
    log.flush()
    folder.kill()
    folder.forget_syncs(above=3)
    (folder.path / RECOVERY_POINTS).unlink()
    synced: list[Path] = []
    real = os.fsync

    def sync(descriptor: int) -> None:
        synced.append(_path_of(descriptor))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    folder.start()
    assert folder.log().recovery_point == 3
    assert folder.path in synced
    assert log.directory in synced


def test_a_snapshot_is_not_written_before_what_it_vouches_for(folder: LogFolder) -> None:
    """At a roll and at a stop, the snapshot is written after the batches and indexes are synced."""
    log, _ = _aborted(folder)
    synced: list[str] = []
    real = producer_snapshot.write_snapshot

    def write(path: Path, *arguments: Any, **options: Any) -> None:
        synced.append(path.name)
        real(path, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_producers, "write_snapshot", write)
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, lambda descriptor: synced.append(Path(_path_of(descriptor)).name))
        log.roll(NOW_MS)
        folder.directory.wait_for_background()
        at_roll = synced[: synced.index(f"{3:020d}.snapshot")]
        append(log)
        synced.clear()
        folder.directory.close()
        at_stop = synced[: synced.index(f"{4:020d}.snapshot")]
    folder.start()
    assert set(at_roll) >= {f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex")}
    assert set(at_stop) >= {f"{3:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")}


def test_a_snapshot_vouches_for_the_batches_below_it(folder: LogFolder) -> None:
    """I8: missing records below a snapshot are damage and not a torn tail, even if no later checkpoint was written."""
    log = folder.create()
    append(log, batch(3))
    log.roll(NOW_MS)
    folder.directory.wait_for_background()
    folder.kill()
    first, second = folder.log_files()
    os.truncate(first, 10)
    second.unlink()
    folder.start()
    assert str(first) in (folder.log().offline_reason or "")


def _cut_within_a_batch(log: Log) -> None:
    log.truncate_to(log.log_end_offset - 1, NOW_MS)  # type: ignore[arg-type]


def _cut_between_batches(log: Log) -> None:
    log.truncate_to(log.log_end_offset - 3, NOW_MS)  # type: ignore[arg-type]


@pytest.mark.parametrize("cut", [_cut_within_a_batch, _cut_between_batches])
def test_a_log_that_is_cut_is_no_loss(folder: LogFolder, cut: Callable[[Log], None]) -> None:
    """I8: a log that is truncated and then crashes is not taken for damaged, and no stale index entry is used.

    The checkpointed recovery point is not above the new log end, and covers no index that the truncation changed.
    """
    log, writer = _aborted(folder)
    append(log, batch(3))
    log.flush()
    folder.directory.checkpoint().result()
    cut(log)
    folder.crash()
    log = folder.log()
    assert not log.is_offline
    assert log.log_end_offset == 3
    commit_all(log)
    assert consume(log) == writer.decided(log)


def test_an_index_that_was_built_anew_is_on_the_disk(folder: LogFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuilt index is synced, because the recovery point continues to vouch for it."""
    log, _ = _aborted(folder)
    log.roll(NOW_MS)
    append(log)
    folder.directory.wait_for_background()
    folder.restart()
    log = folder.log()
    suffixes = (".index", ".timeindex", ".txnindex")
    paths = [log.directory / f"{0:020d}{suffix}" for suffix in suffixes]
    for path in paths:
        path.write_bytes(b"?")
    synced: set[int] = set()
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))
    commit_all(log)
    consume(log)
    found_by_time(log.search_timestamp(NOW_MS))
    assert synced >= {path.stat().st_ino for path in paths}


def test_a_late_flush_does_not_take_the_snapshot_of_another(folder: LogFolder) -> None:
    """I10: a flush that runs after a truncation keeps the snapshot that an earlier flush wrote.

    Both flushes were to write the same snapshot. The truncation did not go below it, so a stop relies on it.
    """
    log = folder.create()
    append(log, batch(sequence=0, producer_id=1, epoch=0))
    with pytest.MonkeyPatch.context() as patch:
        flushes: list[Callable[[], None]] = []
        patch.setattr(log._services, "run_in_background", flushes.append)
        log.roll(NOW_MS)
        append(log)
        log.durability.flush_in_background(NOW_MS)
    flushes[0]()
    log.truncate_to(Offset(1), NOW_MS)
    flushes[1]()
    folder.restart()
    assert [producer_id for producer_id, _ in folder.log().producers.active()] == [1]


def test_indexes_that_a_start_has_cut_are_synced_before_a_snapshot_is_believed(folder: LogFolder) -> None:
    """I9, I11: a start after a crash syncs the indexes, from which it may have cut entries of lost records.

    The cut must be durable before a snapshot vouches for the indexes, because the segment may be rolled at the log end.
    """
    _aborted(folder)
    folder.restart()
    folder.kill()
    synced: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, lambda descriptor: synced.append(_path_of(descriptor).name))
        folder.start()
    assert folder.log().log_end_offset == 3
    assert {f"{0:020d}{suffix}" for suffix in (".index", ".timeindex", ".txnindex")} <= set(synced)


def test_a_start_that_finds_a_loss_cuts_no_index(folder: LogFolder) -> None:
    """I11: a start that takes the partition offline cuts no index, so that a restored file has its aborted
    transactions."""
    _log, writer = _aborted(folder)
    folder.restart()
    folder.kill()
    (file,) = folder.log_files()
    content = file.read_bytes()
    os.truncate(file, 0)
    folder.start()
    assert folder.log().is_offline
    folder.kill()
    file.write_bytes(content)
    folder.start()
    commit_all(folder.log())
    assert consume(folder.log()) == writer.decided(folder.log())


def test_a_transaction_whose_end_was_deleted_is_not_open_for_good(folder: LogFolder) -> None:
    """I11: a transaction is not open if a power failure took its marker from below the log start offset.

    No client would end the transaction again, and nothing above the log start offset is damaged.
    """
    log, writer = folder.create(), Writer()
    writer.write(log, 1)
    log.roll(NOW_MS)
    writer.end(log, 1, is_commit=True)
    log.roll(NOW_MS)
    writer.write(log, 0, is_transactional=False)
    writer.write(log, 1)
    commit_all(log)
    folder.directory.wait_for_background()
    log.delete_records_before(Offset(2))
    folder.directory.checkpoint().result()
    folder.kill()
    folder.forget_syncs(above=1)
    os.truncate(folder.log_files()[1], 0)
    folder.start()
    log = folder.log()
    commit_all(log)
    assert not log.is_offline
    assert (log.log_start_offset, log.last_stable_offset, log.log_end_offset) == (2, 3, 4)
    writer.end(log, 1, is_commit=True)
    commit_all(log)
    assert (log.last_stable_offset, [offset for offset, _ in consume(log, start=2)]) == (5, [2, 3])

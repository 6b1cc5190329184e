"""Tests states that a power failure, a full disk or a flipped bit may leave between two steps, found by simulation."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, read_all

from klamm.core.log.transaction_verification import UNVERIFIED
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from klamm.storage.log import log_producers
from klamm.storage.log.log import Log

CLEAN_MARK = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
_LAST_OFFSET_DELTA_AT = 26
_HEADER_BYTES = 61
_MARKER_VALUE_BYTES = 8
"""Size of the end of a marker's record after its key: the length and content of the value, and the header count."""


@contextmanager
def _synced() -> Iterator[set[int]]:
    """Collects the inodes of the files that are synced with fsync."""
    inodes: set[int] = set()
    real = os.fsync

    def sync(descriptor: int) -> None:
        inodes.add(os.fstat(descriptor).st_ino)
        real(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        yield inodes


@contextmanager
def _forgotten() -> Iterator[set[int]]:
    """Collects the inodes of the files whose pages the system is asked to drop from its cache."""
    inodes: set[int] = set()
    real = os.posix_fadvise

    def advise(descriptor: int, offset: int, length: int, advice: int) -> None:
        if advice == os.POSIX_FADV_DONTNEED:
            inodes.add(os.fstat(descriptor).st_ino)
        real(descriptor, offset, length, advice)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "posix_fadvise", advise)
        yield inodes


@contextmanager
def _full(call: str) -> Iterator[None]:
    def fail(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, fail)
        yield


def test_names_of_a_killed_process_are_synced(folder: LogFolder) -> None:
    """I8: a flush after a crash syncs the partition's folder and its parent, which the killed process may have left
    unsynced."""
    append(folder.create())
    folder.crash()
    append(folder.log())
    with _synced() as inodes:
        folder.log().flush()
    assert {folder.path.stat().st_ino, folder.log().directory.stat().st_ino} <= inodes


def test_the_name_of_new_leader_epochs_is_synced(folder: LogFolder) -> None:
    """I1: a flush syncs the folder that holds a new leader epoch checkpoint before the recovery point moves.

    Below the recovery point, no start looks for epochs in the batches, so the checkpoint's new name must be durable.
    """
    append(folder.create())
    folder.restart()
    log = folder.log()
    log.assign_leader_epoch(LeaderEpoch(7))
    append(log, leader_epoch=7)
    with _synced() as inodes:
        log.flush()
    assert log.directory.stat().st_ino in inodes


def test_indexes_that_recovery_wrote_are_synced_before_a_clean_stop(folder: LogFolder) -> None:
    """I9: a clean stop syncs the indexes that recovery wrote, because the next start trusts them.

    The flush of an active segment leaves indexes out, and without them a search for the largest timestamp finds none.
    Here an earlier stop was killed before it could leave its mark, so there is nothing more to write.
    """
    append(folder.create())
    folder.log().close()
    folder.directory.checkpoint().result()
    folder.crash()
    with _synced() as inodes:
        folder.log().durability.flush_in_background(NOW_MS)
        folder.directory.close()
    indexes = [folder.log_files()[0].with_suffix(suffix) for suffix in (".index", ".timeindex")]
    assert {path.stat().st_ino for path in indexes} <= inodes


def test_what_a_killed_process_had_not_synced_is_read_from_the_disk(folder: LogFolder) -> None:
    """I8: after a crash, unsynced segments are read from the disk and not from the page cache.

    The kill may have come while a sync failed, before the failure was marked. Linux then treats pages as clean that are
    not on the disk, and reports success for them from then on.
    """
    log = folder.create(segment_bytes=150)
    for _ in range(2):
        append(log)
    log.flush()
    folder.directory.checkpoint().result()
    append(log)
    synced, unsynced = folder.log_files()[0], folder.log_files()[-1]
    with _forgotten() as inodes:
        folder.crash()
    assert unsynced.stat().st_ino in inodes
    assert synced.stat().st_ino not in inodes


def test_what_recovery_cuts_stays_cut(folder: LogFolder) -> None:
    """Recovery syncs a file that it cuts, so that the removed bytes do not come back after later records."""
    log = folder.create(segment_bytes=150)
    for _ in range(3):
        append(log)
    files = folder.log_files()
    folder.kill()
    folder.forget_syncs()
    os.truncate(files[0], 10)
    with _synced() as inodes:
        folder.start()
    assert folder.log().log_end_offset == 0
    assert {files[0].stat().st_ino, files[0].parent.stat().st_ino} <= inodes


def test_a_flipped_bit_does_not_move_the_end_of_a_log(folder: LogFolder) -> None:
    """I8: a start after a clean stop finds a flipped bit in the last batch's offsets, which determine the log end."""
    append(folder.create(), batch(2))
    folder.directory.close()
    path = folder.log_files()[0]
    content = bytearray(path.read_bytes())
    content[_LAST_OFFSET_DELTA_AT] ^= 0x40
    path.write_bytes(content)
    folder.start()
    assert f"{path} is damaged" in (folder.log().offline_reason or "")


def test_a_stop_that_can_not_write_an_index_is_no_clean_one(folder: LogFolder) -> None:
    """A stop that cannot write an index leaves no mark of a clean stop, even if all records are synced."""
    log = folder.create(index_interval_bytes=0, flush_messages=1)
    for _ in range(3):
        append(log)
    with _full("pwrite"):
        folder.directory.close()
    assert not (folder.path / CLEAN_MARK).exists()
    folder.start()
    assert len(read_all(folder.log())) == 3


def test_a_stop_that_can_not_write_a_snapshot_is_no_clean_one(folder: LogFolder) -> None:
    """I10: a stop that cannot write a snapshot leaves no mark of a clean stop, so that the next start finds the
    producers."""
    append(folder.create(), batch(sequence=0, producer_id=1, epoch=0))

    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_producers, "write_snapshot", fail)
        folder.directory.close()
    assert not (folder.path / CLEAN_MARK).exists()
    folder.start()
    assert [producer_id for producer_id, _ in folder.log().producers.active()] == [1]


def test_a_transaction_that_begins_before_the_log_start_offset_is_open(folder: LogFolder) -> None:
    """I11: a transaction stays open after a crash if DeleteRecords moved the log start offset into its batch."""
    log = folder.create()
    log.appender.append_as_leader(
        batch(3, producer_id=1, epoch=0, sequence=0, is_transactional=True),
        leader_epoch=LeaderEpoch(0),
        now_ms=NOW_MS,
        verification_guard=UNVERIFIED,
    )
    log.advance_high_watermark(Offset(3))
    log.delete_records_before(Offset(1))
    folder.directory.checkpoint().result()
    folder.crash()
    log = folder.log()
    log.advance_high_watermark(log.log_end_offset)
    assert (log.log_start_offset, log.last_stable_offset) == (1, 1)


def test_a_compacted_log_does_not_go_on_behind_a_hole(folder: LogFolder) -> None:
    """I8: recovery cuts a compacted log at the lost end of a segment, because no cleaner leaves such a gap."""
    log = folder.create(cleanup_policy=frozenset({"compact"}), segment_bytes=200)
    for _ in range(4):
        append(log)
    first, second = folder.log_files()[:2]
    folder.kill()
    folder.forget_syncs(1)
    half = first.stat().st_size // 2
    os.truncate(first, half)
    folder.start()
    assert folder.log().log_end_offset == 1
    assert not second.exists()


def test_a_marker_that_is_damaged_is_not_believed(folder: LogFolder) -> None:
    """I8, I11: a start that reads transaction markers checks them, as a flipped bit can turn a commit into an abort."""
    log = folder.create(index_interval_bytes=0)
    log.appender.append_as_leader(
        batch(producer_id=1, epoch=0, sequence=0, is_transactional=True),
        leader_epoch=LeaderEpoch(0),
        now_ms=NOW_MS,
        verification_guard=UNVERIFIED,
    )
    marker = _marker(1, is_commit=True)
    log.appender.append_as_leader(marker, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, from_client=False)
    for _ in range(3):
        append(log)
    folder.restart()
    append(folder.log())
    path = folder.log_files()[0]
    folder.kill()
    content = bytearray(path.read_bytes())
    at = content.index(marker[_HEADER_BYTES:]) + len(marker) - _HEADER_BYTES - _MARKER_VALUE_BYTES - 1
    content[at] ^= 1
    path.write_bytes(content)
    folder.start()
    assert f"{path} is damaged at offset 1, position " in (folder.log().offline_reason or "")


def test_a_snapshot_of_before_the_first_segment_is_not_used(folder: LogFolder) -> None:
    """I10, I11: a producer snapshot from before the first segment is removed and not used.

    Retention removed a marker and the snapshot, and a power failure brought back only the snapshot. The snapshot's open
    transaction has no marker any more, so it would hold back the last stable offset forever.
    """
    log = folder.create()
    log.appender.append_as_leader(
        batch(producer_id=1, epoch=0, sequence=0, is_transactional=True),
        leader_epoch=LeaderEpoch(0),
        now_ms=NOW_MS,
        verification_guard=UNVERIFIED,
    )
    log.roll(NOW_MS)
    log.appender.append_as_leader(
        _marker(1, is_commit=True), leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, from_client=False
    )
    log.roll(NOW_MS)
    append(log)
    folder.directory.wait_for_background()
    old, new = sorted(log.directory.glob("*.snapshot"))
    content = old.read_bytes()
    log.delete_records_before(Offset(2))
    log.delete_old_segments(NOW_MS)
    folder.kill()
    old.write_bytes(content)
    new.unlink()
    folder.start()
    assert (folder.log().log_start_offset, _last_stable_offset(folder.log())) == (2, 3)
    assert not old.exists()


def test_an_abort_that_was_lost_is_forgotten(folder: LogFolder) -> None:
    """I11: an entry of the transaction index whose abort marker was lost is dropped, because a commit may follow.

    The snapshot vouches for the index only up to the end of the log.
    """
    log = folder.create()
    log.appender.append_as_leader(
        batch(producer_id=1, epoch=0, sequence=0, is_transactional=True),
        leader_epoch=LeaderEpoch(0),
        now_ms=NOW_MS,
        verification_guard=UNVERIFIED,
    )
    size_bytes = log.size_bytes
    folder.restart()
    folder.log().appender.append_as_leader(
        _marker(1, is_commit=False), leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, from_client=False
    )
    folder.directory.close()
    (folder.path / CLEAN_MARK).unlink()
    folder.forget_syncs(1)
    os.truncate(folder.log_files()[0], size_bytes)
    folder.start()
    log = folder.log()
    assert log.log_end_offset == 1
    log.appender.append_as_leader(
        _marker(1, is_commit=True), leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, from_client=False
    )
    assert log.aborted_transactions(Offset(0), 1_000) == []


def test_a_log_that_begins_anew_knows_no_producers(folder: LogFolder) -> None:
    """I10, I11: a log that restarts at the log start offset after losing its records drops its producer snapshots.

    Kafka does the same (truncateFullyAndStartAt). An open transaction in a snapshot would hold back the last stable
    offset forever.
    """
    log = folder.create()
    log.appender.append_as_leader(
        batch(producer_id=1, epoch=0, sequence=0, is_transactional=True),
        leader_epoch=LeaderEpoch(0),
        now_ms=NOW_MS,
        verification_guard=UNVERIFIED,
    )
    log.roll(NOW_MS)
    log.appender.append_as_leader(
        _marker(1, is_commit=False), leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, from_client=False
    )
    append(log)
    log.delete_records_before(Offset(3))
    folder.directory.checkpoint().result()
    folder.kill()
    (folder.path / RECOVERY_POINTS).unlink()
    os.truncate(folder.log_files()[-1], 0)
    folder.start()
    log = folder.log()
    assert (log.log_start_offset, log.log_end_offset, _last_stable_offset(log)) == (3, 3, 3)
    assert not list(log.producers.active())
    append(log)
    assert _last_stable_offset(log) == 4
    folder.crash()
    assert not list(folder.log().producers.active())


def test_a_hole_that_was_taken_for_a_gap_stays_one(folder: LogFolder) -> None:
    """I8: a hole that a start has accepted as a cleaner's gap stays accepted at later starts.

    Without a recovery point, the lost end of a segment looks like a gap that Kafka's cleaner leaves. The log continues
    after the hole, so a later start must not find a recovery point in it and cut or refuse the log.
    """
    log = folder.create(cleanup_policy=frozenset({"compact"}))
    append(log)
    log.flush()
    append(log, leader_epoch=1)
    left = log.size_bytes
    append(log, leader_epoch=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log._services, "run_in_background", lambda job: None)
        log.roll(NOW_MS)
    folder.kill()
    os.truncate(folder.log_files()[0], left)
    folder.start()
    log = folder.log()
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    flush = log.durability.begin_flush(NOW_MS)
    assert flush is not None
    append(log, leader_epoch=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log._services, "run_in_background", lambda job: None)
        log.roll(NOW_MS)
    flush.run()
    folder.directory.checkpoint().result()
    folder.crash()
    assert [record.offset for record in read_all(folder.log())] == [0, 1, 3]
    assert folder.log().leader_epochs == ((0, 0), (1, 1))


def test_a_snapshot_that_knows_of_lost_records_is_not_used_later(folder: LogFolder) -> None:
    """I10, I11: a snapshot that covers lost records is not used, also after a later crash with a higher recovery point.

    A power failure took a marker from the end of a segment before there was a recovery point, so the transaction is
    open again.
    """
    log = folder.create(cleanup_policy=frozenset({"compact"}))
    log.appender.append_as_leader(
        batch(producer_id=1, epoch=0, sequence=0, is_transactional=True),
        leader_epoch=LeaderEpoch(0),
        now_ms=NOW_MS,
        verification_guard=UNVERIFIED,
    )
    size_bytes = log.size_bytes
    log.appender.append_as_leader(
        _marker(1, is_commit=False), leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, from_client=False
    )
    log.roll(NOW_MS)
    append(log)
    first = folder.log_files()[0]
    folder.kill()
    folder.forget_syncs()
    os.truncate(first, size_bytes)
    folder.start()
    assert _last_stable_offset(folder.log()) == 0
    append(folder.log())
    folder.log().flush()
    folder.directory.checkpoint().result()
    assert folder.log().recovery_point > 2
    folder.crash()
    assert _last_stable_offset(folder.log()) == 0


def _marker(producer_id: int, *, is_commit: bool) -> bytes:
    return encode_end_transaction_marker(
        EndTransactionMarker(is_commit, coordinator_epoch=0),
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=NOW_MS,
    )


def _last_stable_offset(log: Log) -> Offset:
    log.advance_high_watermark(log.log_end_offset)
    return log.last_stable_offset

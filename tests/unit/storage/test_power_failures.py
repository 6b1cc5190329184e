"""What a power failure, a full disk or a flipped bit may leave between two steps, as simulation has found it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, read_all

from klamm.core.log.transaction_verification import UNVERIFIED
from klamm.protocol.types import LeaderEpoch, Offset
from klamm.storage import durable_log

CLEAN_MARK = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
_LAST_OFFSET_DELTA_AT = 26


@contextmanager
def _synced() -> Iterator[set[int]]:
    """Collects the inodes of what is synced."""
    inodes: set[int] = set()
    real = os.fsync

    def sync(descriptor: int) -> None:
        inodes.add(os.fstat(descriptor).st_ino)
        real(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        yield inodes


@contextmanager
def _full(call: str) -> Iterator[None]:
    def fail(*arguments: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, fail)
        yield


def test_names_of_a_killed_process_are_synced(folder: LogFolder) -> None:
    """I8: it had not come to sync the partition's folder, nor the name of that; what is acknowledged now needs both."""
    append(folder.create())
    folder.crash()
    append(folder.log())
    with _synced() as inodes:
        folder.log().flush()
    assert {folder.path.stat().st_ino, folder.log().directory.stat().st_ino} <= inodes


def test_what_recovery_cuts_stays_cut(folder: LogFolder) -> None:
    """Else it might come back behind what is written in its place."""
    log = folder.create(segment_bytes=150)
    for _ in range(3):
        append(log)
    files = folder.log_files()
    folder.kill()
    (folder.path / RECOVERY_POINTS).unlink(missing_ok=True)
    os.truncate(files[0], 10)
    with _synced() as inodes:
        folder.start()
    assert folder.log().log_end_offset == 0
    assert {files[0].stat().st_ino, files[0].parent.stat().st_ino} <= inodes


def test_a_recovery_point_does_not_vouch_for_indexes_that_are_written_to(folder: LogFolder) -> None:
    """I11: a flush of the active segment leaves its indexes out. When the next one begins just there, a start must not
    rely on them before they have been synced."""
    log = folder.create()
    append(log, batch(3))
    log.flush()
    assert log.recovery_point == 3
    folder.directory.checkpoint().result()
    assert (folder.path / RECOVERY_POINTS).read_text() == "0\n1\norders 0 2\n"
    flush = log.begin_flush(NOW_MS)
    assert flush is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log._services, "run_in_background", lambda job: None)
        log.roll(NOW_MS)
    assert log.recovery_point == 2
    flush.run()
    assert log.recovery_point == 2, "it was begun before"
    log.flush()
    assert log.recovery_point == 3


def test_a_flipped_bit_does_not_move_the_end_of_a_log(folder: LogFolder) -> None:
    """I8: a start after a clean stop reads the last batch's offsets, and what is written next goes on from there."""
    append(folder.create(), batch(2))
    folder.directory.close()
    path = folder.log_files()[0]
    content = bytearray(path.read_bytes())
    content[_LAST_OFFSET_DELTA_AT] ^= 0x40
    path.write_bytes(content)
    folder.start()
    assert f"{path} is damaged" in (folder.log().offline_reason or "")


def test_a_stop_that_can_not_write_an_index_is_no_clean_one(folder: LogFolder) -> None:
    """Though all records are on the disk."""
    log = folder.create(index_interval_bytes=0, flush_messages=1)
    for _ in range(3):
        append(log)
    with _full("pwrite"):
        folder.directory.close()
    assert not (folder.path / CLEAN_MARK).exists()
    folder.start()
    assert len(read_all(folder.log())) == 3


def test_a_stop_that_can_not_write_a_snapshot_is_no_clean_one(folder: LogFolder) -> None:
    """I10: the next start would take it that the log has no producers."""
    append(folder.create(), batch(sequence=0, producer_id=1, epoch=0))

    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable_log, "write_snapshot", fail)
        folder.directory.close()
    assert not (folder.path / CLEAN_MARK).exists()
    folder.start()
    assert [producer_id for producer_id, _ in folder.log().active_producers()] == [1]


def test_a_transaction_that_begins_before_the_log_start_offset_is_open(folder: LogFolder) -> None:
    """I11: the log begins within a batch after records were deleted, and the rest of it is still undecided."""
    log = folder.create()
    log.append_as_leader(
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
    """I8: a power failure took the end of one segment and left the next. That is no gap that a cleaner makes."""
    log = folder.create(cleanup_policy=frozenset({"compact"}), segment_bytes=200)
    for _ in range(4):
        append(log)
    first, second = folder.log_files()[:2]
    folder.kill()
    (folder.path / RECOVERY_POINTS).write_text("0\n1\norders 0 1\n")
    half = first.stat().st_size // 2
    os.truncate(first, half)
    folder.start()
    assert folder.log().log_end_offset == 1
    assert not second.exists()

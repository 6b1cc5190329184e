"""Tests that a follower's log is as before or as after each change, at whatever call a crash or a power failure ends
the process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest
from tests.simulation.logs.device import Crash, Device, Strike
from tests.simulation.logs.threads import Threads
from tests.support.examples import examples
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, read_bytes, sent

from klamm.protocol.types import LeaderEpoch, Offset
from klamm.storage.directory import log_directory, log_opening
from klamm.storage.log.log import Log

_MOST_CALLS = 200


class _Disk:
    """A data directory on a simulated disk, with one log: twelve records in six segments, in the epochs 0 to 2."""

    def __init__(self, path: Path, seed: int) -> None:
        path.mkdir(parents=True)
        self.device = Device(path, Random(seed), lambda *_: None)
        self._path = path

    @contextmanager
    def running(self) -> Iterator[None]:
        with (
            patch.object(log_directory, "ThreadPoolExecutor", Threads),
            patch.object(log_opening, "ThreadPoolExecutor", Threads),
            self.device.attached(),
        ):
            self.device.begin_life()
            self.folder = LogFolder(self._path)
            log = self.folder.create(segment_bytes=300, index_interval_bytes=100)
            for number in range(6):
                records = batch(2, b"x" * 50, producer_id=number, epoch=0, sequence=0)
                append(log, records, leader_epoch=number // 2)
            self.save()
            yield
            self.folder.kill()

    def save(self) -> None:
        """Flushes the log, and writes the checkpoints."""
        self._run_background()
        self.folder.log().flush(NOW_MS)
        self.folder.directory.checkpoint()
        self._run_background()

    def _run_background(self) -> None:
        background = self.folder.directory._background
        assert isinstance(background, Threads)
        background.run_all()

    def start_again(self) -> Log:
        """Starts on what the crash has left."""
        self._run_background()
        self.folder.kill()
        self.device.begin_life()
        self.folder.start()
        return self.folder.log()


def logs_after_crashes(
    path: Path, change: Callable[[Log], object], strike: Strike, *, tries: int
) -> Iterator[tuple[Log, bool]]:
    """Crashes the process at each call that changes the disk, and yields the log as the next start finds it, and
    whether `change` was complete and saved before."""
    for calls in range(1, _MOST_CALLS):
        for seed in range(tries):
            disk = _Disk(path / f"{calls}-{seed}", seed)
            is_saved = False
            with disk.running():
                disk.device.arm(strike, calls)
                try:
                    change(disk.folder.log())
                    disk.save()
                    is_saved = True
                except Crash:
                    pass
                else:
                    disk.device.strike(strike)
                yield disk.start_again(), is_saved
        if is_saved:
            return
    raise AssertionError(f"the change needs more than {_MOST_CALLS} calls")


# What a power failure leaves depends on the seed; what a killed process leaves does not.
STRIKES = pytest.mark.parametrize(("strike", "tries"), [(Strike.KILL, 1), (Strike.POWER, examples(2, least=1))])


def test_offsets_above_a_truncation_do_not_come_back(folder: LogFolder) -> None:
    """A log that was purged, and is then truncated below its start by an unclean election, begins and commits where it
    was cut, also after a crash: the records that it gets next are others than those that were purged."""
    log = folder.create()
    for _ in range(15):
        append(log, batch())
    log.flush()
    log.retention.delete_records_before(Offset(15))
    folder.directory.checkpoint().result()
    log.truncate_to(Offset(8), NOW_MS)
    log.following.append(sent(8, 3) + sent(9, 3), NOW_MS)

    folder.crash()

    log = folder.log()
    assert (log.log_start_offset, log.log_end_offset) == (8, 10)
    assert log.high_watermark <= 8
    assert read_bytes(log) == sent(8, 3) + sent(9, 3)


def test_truncated_records_that_come_back_are_not_committed(folder: LogFolder) -> None:
    """I5: a follower truncates records, and takes over others at their offsets, which are committed. If a power failure
    undoes both, the high watermark of the others is not that of the truncated records: no consumer reads them, and the
    cleaner does not take them for newer values."""
    log = folder.create()
    for _ in range(5):
        append(log, batch())
    log.flush()
    before = read_bytes(log)
    log.truncate_to(Offset(2), NOW_MS)
    log.following.append(sent(2, 1) + sent(3, 1), NOW_MS)
    log.advance_high_watermark(Offset(4))
    folder.directory.checkpoint().result()

    folder.kill()
    folder.log_files()[0].write_bytes(before)
    folder.start()

    log = folder.log()
    assert read_bytes(log) == before
    assert log.high_watermark == 2
    # The log still finds that it diverges: the leader's last epoch that is not above 0 ends at offset 2.
    assert log.leader_epochs == ((0, 0),)
    assert log.following.agreed_end(LeaderEpoch(0), Offset(2)) == 2


@STRIKES
def test_log_that_begins_again_is_whole_or_empty(tmp_path: Path, strike: Strike, tries: int) -> None:
    """I8: after a crash the log has all its records, or begins at the new offset. Then it has no leader epoch: one of
    the removed records would make the leader report a divergence."""
    found = set()
    for log, is_saved in logs_after_crashes(
        tmp_path, lambda log: log.following.restart_at(Offset(100), NOW_MS), strike, tries=tries
    ):
        assert not log.is_offline
        state = log.log_start_offset, log.log_end_offset, log.latest_epoch, len(list(log.producers.active()))
        assert state in {(0, 12, 2, 6), (100, 100, -1, 0)}
        assert state[0] == 100 or not is_saved
        found.add(state)
        append(log, leader_epoch=1)
        assert log.leader_epochs[-1] == (1, state[1]) or state[0] == 0
    assert len(found) == 2


@STRIKES
def test_log_that_begins_with_a_batch_across_its_start_is_whole_or_empty(
    tmp_path: Path, strike: Strike, tries: int
) -> None:
    """I8: after a crash the log is as before, begins empty at its new start, or has the batch that begins below it."""

    def begin(log: Log) -> None:
        log.following.restart_at(Offset(100), NOW_MS)
        log.following.begin_with(sent(98, 1, last_offset_delta=3), NOW_MS)

    found = set()
    for log, is_saved in logs_after_crashes(tmp_path, begin, strike, tries=tries):
        assert not log.is_offline
        state = log.log_start_offset, log.log_end_offset
        assert state in {(0, 12), (100, 100), (100, 102)}
        assert state == (100, 102) or not is_saved
        found.add(state)
        if state == (100, 100):
            log.following.begin_with(sent(98, 1, last_offset_delta=3), NOW_MS)
        append(log, leader_epoch=2)
    assert len(found) == 3


@STRIKES
def test_truncation_leaves_a_beginning_of_the_log(tmp_path: Path, strike: Strike, tries: int) -> None:
    """I8: after a crash the log ends where it did before, where it was truncated, or in between, with the bytes, epochs
    and producers up to there. A power failure may restore what was removed; then the leader has it removed again."""
    for log, is_saved in logs_after_crashes(
        tmp_path,
        lambda log: log.truncate_to(log.following.agreed_end(LeaderEpoch(0), Offset(4)), NOW_MS),
        strike,
        tries=tries,
    ):
        assert not log.is_offline
        end = log.log_end_offset
        assert 4 <= end <= 12
        assert end == 4 or not is_saved or strike is Strike.POWER
        assert len(read_bytes(log)) == end // 2 * len(batch(2, b"x" * 50))
        assert log.leader_epochs == ((0, 0), (1, 4), (2, 8))[: (end + 3) // 4]
        assert len(list(log.producers.active())) == end // 2


@STRIKES
def test_truncation_below_the_first_segment_is_no_damage(tmp_path: Path, strike: Strike, tries: int) -> None:
    """I8: a log whose first segments are deleted, and which an unclean election truncates below the others, is as it
    was after a crash, or begins empty; and it keeps what it gets next."""
    records = b"".join(sent(offset, 3) for offset in (2, 3))

    def change(log: Log) -> None:
        log.retention.delete_records_before(Offset(6))
        assert log.delete_old_segments(NOW_MS) == 3
        log.truncate_to(Offset(2), NOW_MS)
        log.following.append(records, NOW_MS)

    for log, is_saved in logs_after_crashes(tmp_path, change, strike, tries=tries):
        assert not log.is_offline, log.offline_reason
        if is_saved:
            assert (log.log_start_offset, log.log_end_offset, read_bytes(log)) == (2, 4, records)
        log.truncate_to(Offset(2), NOW_MS)
        log.following.append(records, NOW_MS)
        assert read_bytes(log, 2) == records


@STRIKES
def test_what_follows_a_truncation_lasts(tmp_path: Path, strike: Strike, tries: int) -> None:
    """I8: no removed batch comes back behind the synced batches of the next leader."""
    records = b"".join(sent(offset, 3) for offset in (4, 5))

    def change(log: Log) -> None:
        log.truncate_to(log.following.agreed_end(LeaderEpoch(0), Offset(4)), NOW_MS)
        log.following.append(records, NOW_MS)

    for log, is_saved in logs_after_crashes(tmp_path, change, strike, tries=tries):
        assert not log.is_offline
        if is_saved:
            assert (log.log_end_offset, read_bytes(log, 4)) == (6, records)
            assert log.leader_epochs == ((0, 0), (3, 4))


@STRIKES
def test_gap_is_no_lost_batch_after_a_crash(tmp_path: Path, strike: Strike, tries: int) -> None:
    """I8: the follower of a log that was compacted before its policy changed keeps the batches behind a gap."""

    def copy(log: Log) -> None:
        log.following.append(b"".join(sent(offset, 2) for offset in (12, 20, 30)), NOW_MS)

    for log, is_saved in logs_after_crashes(tmp_path, copy, strike, tries=tries):
        assert not log.is_offline
        assert log.log_end_offset in {12, 13, 21, 31}
        assert log.log_end_offset == 31 or not is_saved

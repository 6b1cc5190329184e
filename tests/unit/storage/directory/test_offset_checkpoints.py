"""Tests the three checkpoints of a data directory, which two threads write."""

from __future__ import annotations

from collections.abc import Generator

from tests.support.log_folder import NOW_MS, ORDERS, LogFolder, append, batch

from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.storage.checkpoints import RECOVERY_POINT_FILE, read_offsets
from klamm.storage.directory.offset_checkpoints import CheckpointContents, OffsetCheckpoints
from klamm.storage.log.log_services import LogOffsets


def test_what_was_gathered_earlier_does_not_undo_what_was_written_later(folder: LogFolder) -> None:
    """A checkpoint that was gathered earlier does not overwrite one that was gathered later and written first.

    This occurs if a checkpoint waits in the background while a log is truncated.
    """
    log = folder.create()
    append(log)
    log.flush()
    checkpoints = OffsetCheckpoints(folder.path)
    earlier = checkpoints.gather(folder.directory.logs)
    checkpoints.announced[log] = LogOffsets(Offset(0), Offset(0), Offset(0))
    checkpoints.write(checkpoints.gather(folder.directory.logs))
    checkpoints.write(earlier)
    assert read_offsets(folder.path / RECOVERY_POINT_FILE) == {ORDERS: 0}
    assert not checkpoints.may_name(ORDERS)


def test_what_is_gathered_in_steps_is_what_is_gathered_at_once(folder: LogFolder) -> None:
    """A checkpoint gathered in steps equals one gathered at once, with more logs than one step covers."""
    for index in range(600):
        append(folder.create(TopicPartition("many", PartitionIndex(index))), batch(1 + index % 3))
    checkpoints = OffsetCheckpoints(folder.path)
    steps = checkpoints.gather_in_steps(folder.directory.logs)
    number_of_steps, contents = _run(steps)
    assert number_of_steps == 2
    assert contents is not None
    assert contents.files == checkpoints.gather(folder.directory.logs).files
    assert len(contents.files[RECOVERY_POINT_FILE]) == 600


def test_a_recovery_point_that_is_lowered_between_two_steps_stays_so(folder: LogFolder) -> None:
    """A recovery point that a truncation lowers between two steps is not raised again by the checkpoint."""
    log = folder.create()
    append(log, batch(5))
    log.roll(NOW_MS)
    folder.directory.wait_for_background()
    for index in range(600):
        folder.create(TopicPartition("many", PartitionIndex(index)))
    steps = folder.directory.checkpoint_in_steps()
    next(steps)
    log.truncate_to(Offset(2), NOW_MS)
    assert list(steps) == []
    folder.directory.wait_for_background()
    assert read_offsets(folder.path / RECOVERY_POINT_FILE)[ORDERS] <= 2


def _run(steps: Generator[None, None, CheckpointContents | None]) -> tuple[int, CheckpointContents | None]:
    number = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return number, end.value
        number += 1


def test_files_that_do_not_change_are_not_written(folder: LogFolder) -> None:
    """An unchanged checkpoint is not written again."""
    append(folder.create())
    folder.directory.checkpoint().result()
    before = {path.name: path.stat().st_ino for path in folder.path.glob("*-checkpoint")}
    folder.directory.checkpoint().result()
    assert {path.name: path.stat().st_ino for path in folder.path.glob("*-checkpoint")} == before

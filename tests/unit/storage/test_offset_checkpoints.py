"""The three checkpoints of a data directory, written by two threads."""

from __future__ import annotations

from tests.support.log_folder import ORDERS, LogFolder, append

from klamm.protocol.types import Offset
from klamm.storage.checkpoints import RECOVERY_POINT_FILE, read_offsets
from klamm.storage.offset_checkpoints import OffsetCheckpoints


def test_what_was_gathered_earlier_does_not_undo_what_was_written_later(folder: LogFolder) -> None:
    """A checkpoint waits in the background while a log is cut."""
    log = folder.create()
    append(log)
    log.flush()
    checkpoints = OffsetCheckpoints(folder.path)
    earlier = checkpoints.gather(folder.directory.logs)
    checkpoints.write(checkpoints.gather(folder.directory.logs, {ORDERS: Offset(0)}))
    checkpoints.write(earlier)
    assert read_offsets(folder.path / RECOVERY_POINT_FILE) == {ORDERS: 0}
    assert not checkpoints.has_recovery_point(ORDERS)


def test_files_that_do_not_change_are_not_written(folder: LogFolder) -> None:
    """An idle broker leaves its disk alone."""
    append(folder.create())
    folder.directory.checkpoint().result()
    before = {path.name: path.stat().st_ino for path in folder.path.glob("*-checkpoint")}
    folder.directory.checkpoint().result()
    assert {path.name: path.stat().st_ino for path in folder.path.glob("*-checkpoint")} == before

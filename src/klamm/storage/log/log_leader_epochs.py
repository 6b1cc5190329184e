"""The leader epochs of one log, and the checkpoint file that stores them.

Source: `storage/internals/epoch/LeaderEpochFileCache.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from threading import Lock

from klamm.core.log.leader_epoch import LeaderEpochs
from klamm.protocol.types import LeaderEpoch, Offset
from klamm.storage.atomic_file import write_atomically
from klamm.storage.checkpoints import LEADER_EPOCH_FILE, encode_leader_epochs
from klamm.storage.log.log_sync import LogSync
from klamm.storage.segment.segments import Segments

__all__ = ["LogLeaderEpochs"]


class LogLeaderEpochs:
    """The leader epochs of one log. Every change is made here, and is written to the disk with the next flush.

    `known` is for reading: the start offset of each epoch.
    """

    __slots__ = ("_checkpoint_lock", "_has_changed", "_segments", "known")

    def __init__(
        self, epochs: LeaderEpochs, segments: Segments, checkpoint_lock: Lock, *, has_changed: bool = False
    ) -> None:
        """Takes over the epochs of a log that was opened. `has_changed`: the checkpoint may lack some of them."""
        self.known = epochs
        self._segments = segments
        self._checkpoint_lock = checkpoint_lock
        self._has_changed = has_changed

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Starts `epoch` at `start_offset`. It need not be durable until a record is appended under it."""
        if self.known.assign(epoch, start_offset):
            self._has_changed = True

    def truncate_from_start(self, offset: Offset) -> None:
        """Removes entries below `offset`, the new log start offset."""
        if self.known.truncate_from_start(offset):
            self._has_changed = True

    def truncate_from_end(self, offset: Offset) -> None:
        """Removes the epochs that begin at or above `offset`, the new log end offset."""
        if self.known.truncate_from_end(offset):
            self._has_changed = True

    def clear(self) -> None:
        """Removes all epochs durably, before all records are removed. Raises OSError.

        Otherwise, after a crash, the epoch of the last removed record would seem to be that of the new first offset.
        The caller syncs the folder. Source: `LeaderEpochFileCache.clearAndFlush`.
        """
        self.known.clear()
        self._has_changed = False
        self._write()

    def checkpoint_with_next_flush(self, sync: LogSync) -> None:
        """Schedules the checkpoint for the flush that is prepared next, if the epochs have changed since the last
        one."""
        if self._has_changed:
            self._has_changed = False
            sync.write_later(self._write)

    def _write(self) -> None:
        """Writes the current epochs, on any thread. Raises OSError."""
        with self._checkpoint_lock:
            write_atomically(self._segments.directory / LEADER_EPOCH_FILE, encode_leader_epochs(self.known.entries))

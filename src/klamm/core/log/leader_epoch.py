"""The start offset of each leader epoch (KIP-101), from which clients and followers detect a truncated log.

Source: `storage/internals/epoch/LeaderEpochFileCache.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from klamm.protocol.types import LeaderEpoch, Offset

__all__ = [
    "EpochEntry",
    "LeaderEpochs",
]

_UNDEFINED_EPOCH: Final = LeaderEpoch(-1)
_UNDEFINED_OFFSET: Final = Offset(-1)


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of its first record, even if it has no record yet."""

    epoch: LeaderEpoch
    start_offset: Offset


class LeaderEpochs:
    """The leader epochs of one log, ascending in epoch and in start offset."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All entries, oldest first."""
        return tuple(self._entries)

    @property
    def latest_epoch(self) -> LeaderEpoch:
        """The newest epoch, -1 if none was ever assigned."""
        return self._entries[-1].epoch if self._entries else _UNDEFINED_EPOCH

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Records that `epoch` begins at `start_offset`; returns whether anything changed.

        Entries that would break the ascending order are removed: those with a higher epoch, and those that do not begin
        earlier, which were assigned but never written to.
        """
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        return True

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEntry:
        """Returns the largest known epoch not above `epoch`, and its end offset.

        That is the start of the next epoch, or the log end offset for the latest epoch. Returns (-1, -1) for an epoch
        above all known ones. For an epoch below all known ones, returns `epoch` and the start of the first known epoch,
        since the records of `epoch` are gone.
        """
        entries = self._entries
        if epoch == _UNDEFINED_EPOCH or not entries or epoch > entries[-1].epoch:
            return EpochEntry(_UNDEFINED_EPOCH, _UNDEFINED_OFFSET)
        if epoch == entries[-1].epoch:
            return EpochEntry(epoch, log_end_offset)
        higher = bisect_right(entries, epoch, key=_epoch_of)
        if higher == 0:
            return EpochEntry(epoch, entries[0].start_offset)
        return EpochEntry(entries[higher - 1].epoch, entries[higher].start_offset)

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        """Returns the epoch under which `offset` was written, -1 if it is before the first known epoch."""
        index = bisect_right(self._entries, offset, key=_start_offset_of)
        return self._entries[index - 1].epoch if index else _UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> bool:
        """Drops epochs that begin at or after `end_offset`; returns whether there were any."""
        entries = self._entries
        before = len(entries)
        while entries and entries[-1].start_offset >= end_offset:
            entries.pop()
        return len(entries) != before

    def forget_unwritten(self, epoch: LeaderEpoch, offset: Offset) -> None:
        """Drops epochs above `epoch` that begin below `offset`: the last record below `offset` has `epoch`.

        A broker that leads without a record assigns such an epoch. If it then follows another leader, the record at
        that offset may be of an earlier epoch.
        """
        self._entries = [entry for entry in self._entries if entry.epoch <= epoch or entry.start_offset >= offset]

    def truncate_from_start(self, start_offset: Offset) -> bool:
        """Drops what is below `start_offset`, where its epoch begins from now on; returns whether anything changed."""
        entries = self._entries
        index = bisect_right(entries, start_offset, key=_start_offset_of)
        if index == 0 or (index == 1 and entries[0].start_offset == start_offset):
            return False
        entries[:index] = [EpochEntry(entries[index - 1].epoch, start_offset)]
        return True

    def clear(self) -> None:
        """Forgets every epoch."""
        self._entries.clear()


def _epoch_of(entry: EpochEntry) -> LeaderEpoch:
    return entry.epoch


def _start_offset_of(entry: EpochEntry) -> Offset:
    return entry.start_offset

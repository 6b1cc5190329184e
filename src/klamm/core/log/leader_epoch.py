"""Where each leader epoch of a partition begins (KIP-101): how a client or a follower learns that a log was cut.

Source: `storage/internals/epoch/LeaderEpochFileCache.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from klamm.protocol.types import LeaderEpoch, Offset

__all__ = ["EpochEntry", "LeaderEpochs", "UNDEFINED_EPOCH", "UNDEFINED_OFFSET"]

UNDEFINED_EPOCH: Final = LeaderEpoch(-1)
UNDEFINED_OFFSET: Final = Offset(-1)


class EpochEntry(NamedTuple):
    """A leader epoch and the offset that its first record has, or would have had."""

    epoch: LeaderEpoch
    start_offset: Offset


class LeaderEpochs:
    """The epochs of one log, rising in epoch and in start offset."""

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
        return self._entries[-1].epoch if self._entries else UNDEFINED_EPOCH

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> bool:
        """Notes that `epoch` begins at `start_offset`; whether that was news.

        An entry that would break the rise goes: one with a higher epoch, or one that begins no earlier, which was
        assigned and then never written to.
        """
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        return True

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> EpochEntry:
        """The largest known epoch not above `epoch`, and the offset where it ended: the start of the next one, or the
        log end offset for the latest.

        (-1, -1) for an epoch above all that are known. For one below all, the epoch asked for and the start of the
        first: what it wrote is gone.
        """
        entries = self._entries
        if epoch == UNDEFINED_EPOCH or not entries or epoch > entries[-1].epoch:
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        if epoch == entries[-1].epoch:
            return EpochEntry(epoch, log_end_offset)
        higher = bisect_right(entries, epoch, key=_epoch_of)
        if higher == 0:
            return EpochEntry(epoch, entries[0].start_offset)
        return EpochEntry(entries[higher - 1].epoch, entries[higher].start_offset)

    def epoch_for_offset(self, offset: Offset) -> LeaderEpoch:
        """The epoch under which `offset` was written, -1 if it lies before the first that is known."""
        index = bisect_right(self._entries, offset, key=_start_offset_of)
        return self._entries[index - 1].epoch if index else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: Offset) -> bool:
        """Drops epochs that begin at or after `end_offset`; whether there were any."""
        entries = self._entries
        before = len(entries)
        while entries and entries[-1].start_offset >= end_offset:
            entries.pop()
        return len(entries) != before

    def truncate_from_start(self, start_offset: Offset) -> bool:
        """Forgets what lies below `start_offset`: the epoch it falls in begins there now. Whether anything changed."""
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

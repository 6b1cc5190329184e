"""Tests leader epochs: the offsets at which each one begins and ends."""

from __future__ import annotations

from klamm.core.log.leader_epoch import EpochEntry, LeaderEpochs
from klamm.protocol.types import LeaderEpoch, Offset


def _epochs(*pairs: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(LeaderEpoch(epoch), Offset(start)) for epoch, start in pairs)


def _end_offset_for(epochs: LeaderEpochs, epoch: int, log_end_offset: int) -> tuple[int, int]:
    return epochs.end_offset_for(LeaderEpoch(epoch), Offset(log_end_offset))


def test_an_epoch_ends_where_the_next_begins_and_the_latest_at_the_log_end() -> None:
    """A known epoch ends where the next one begins, and the latest ends at the log end (KIP-101)."""
    epochs = _epochs((2, 0), (4, 10), (5, 30))
    assert _end_offset_for(epochs, 2, 50) == (2, 10)
    assert _end_offset_for(epochs, 4, 50) == (4, 30)
    assert _end_offset_for(epochs, 5, 50) == (5, 50)


def test_an_epoch_that_wrote_nothing_ends_where_the_one_before_it_did() -> None:
    """An epoch without records, between two known epochs, is answered with the lower epoch and its end offset."""
    assert _end_offset_for(_epochs((2, 0), (4, 10)), 3, 50) == (2, 10)


def test_an_epoch_below_all_ends_where_the_log_begins() -> None:
    """An epoch below all known ones ends where the log begins; the answer has the requested epoch."""
    assert _end_offset_for(_epochs((4, 10)), 1, 50) == (1, 10)


def test_an_epoch_above_all_and_no_epoch_are_not_known() -> None:
    """An epoch above all known ones, and epoch -1, give (-1, -1), which tells the caller to ask elsewhere."""
    epochs = _epochs((4, 10))
    assert _end_offset_for(epochs, 5, 50) == (-1, -1)
    assert _end_offset_for(epochs, -1, 50) == (-1, -1)
    assert _end_offset_for(LeaderEpochs(), 0, 50) == (-1, -1)


def test_an_epoch_without_records_gives_way_to_the_next() -> None:
    """The next epoch replaces an epoch without records, for example after two starts of a broker without a write."""
    epochs = _epochs((1, 0), (2, 7))
    assert epochs.assign(LeaderEpoch(3), Offset(7))
    assert epochs.entries == ((1, 0), (3, 7))


def test_assigning_the_same_epoch_again_is_no_news() -> None:
    """If the same epoch is assigned again, the first assignment stays."""
    epochs = _epochs((1, 0))
    assert not epochs.assign(LeaderEpoch(1), Offset(5))
    assert epochs.entries == ((1, 0),)


def test_a_lower_epoch_drops_the_entries_that_contradict_it() -> None:
    """A lower epoch removes the entries that contradict it, because epochs never decrease along the log (I1)."""
    epochs = _epochs((1, 0), (4, 10), (6, 20))
    epochs.assign(LeaderEpoch(5), Offset(15))
    assert epochs.entries == ((1, 0), (4, 10), (5, 15))


def test_truncating_the_end_drops_epochs_that_begin_there_or_later() -> None:
    """Truncating the end removes epochs that begin at the new end or later, because they have no records left."""
    epochs = _epochs((1, 0), (2, 10), (3, 20))
    assert epochs.truncate_from_end(Offset(10))
    assert epochs.entries == ((1, 0),)
    assert not epochs.truncate_from_end(Offset(10))


def test_truncating_the_start_moves_the_epoch_it_falls_in() -> None:
    """After the start is truncated, the epoch of the new first record begins at that record."""
    epochs = _epochs((1, 0), (2, 10), (3, 20))
    assert epochs.truncate_from_start(Offset(15))
    assert epochs.entries == ((2, 15), (3, 20))
    assert not epochs.truncate_from_start(Offset(15))
    assert not epochs.truncate_from_start(Offset(3))


def test_the_epoch_of_an_offset_is_the_last_that_began_before_it() -> None:
    """The epoch of an offset is the last one that begins at or before the offset, and -1 before the first epoch."""
    epochs = _epochs((2, 5), (4, 10))
    assert [epochs.epoch_for_offset(Offset(offset)) for offset in (4, 5, 9, 10, 99)] == [-1, 2, 2, 4, 4]


def test_an_epoch_that_the_records_contradict_is_forgotten() -> None:
    """The last record before offset 7 is of epoch 1, so no later epoch began before it. One may begin at offset 7."""
    epochs = _epochs((1, 0), (3, 6), (4, 7))
    epochs.forget_unwritten(LeaderEpoch(1), Offset(7))
    assert epochs.entries == ((1, 0), (4, 7))
    epochs.forget_unwritten(LeaderEpoch(4), Offset(9))
    assert epochs.entries == ((1, 0), (4, 7))

"""Leader epochs: where each begins, where each ended."""

from __future__ import annotations

from klamm.core.log.leader_epoch import EpochEntry, LeaderEpochs
from klamm.protocol.types import LeaderEpoch, Offset


def _epochs(*pairs: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(LeaderEpoch(epoch), Offset(start)) for epoch, start in pairs)


def _end_offset_for(epochs: LeaderEpochs, epoch: int, log_end_offset: int) -> tuple[int, int]:
    return epochs.end_offset_for(LeaderEpoch(epoch), Offset(log_end_offset))


def test_an_epoch_ends_where_the_next_begins_and_the_latest_at_the_log_end() -> None:
    """KIP-101's question, for epochs that are known."""
    epochs = _epochs((2, 0), (4, 10), (5, 30))
    assert _end_offset_for(epochs, 2, 50) == (2, 10)
    assert _end_offset_for(epochs, 4, 50) == (4, 30)
    assert _end_offset_for(epochs, 5, 50) == (5, 50)


def test_an_epoch_that_wrote_nothing_ends_where_the_one_before_it_did() -> None:
    """Between two known epochs the answer names the lower one."""
    assert _end_offset_for(_epochs((2, 0), (4, 10)), 3, 50) == (2, 10)


def test_an_epoch_below_all_ends_where_the_log_begins() -> None:
    """What it wrote is gone; the answer keeps the epoch that was asked for."""
    assert _end_offset_for(_epochs((4, 10)), 1, 50) == (1, 10)


def test_an_epoch_above_all_and_no_epoch_are_not_known() -> None:
    """(-1, -1) tells the asker to look elsewhere."""
    epochs = _epochs((4, 10))
    assert _end_offset_for(epochs, 5, 50) == (-1, -1)
    assert _end_offset_for(epochs, -1, 50) == (-1, -1)
    assert _end_offset_for(LeaderEpochs(), 0, 50) == (-1, -1)


def test_an_epoch_without_records_gives_way_to_the_next() -> None:
    """Two starts of a broker without a write in between leave one entry."""
    epochs = _epochs((1, 0), (2, 7))
    assert epochs.assign(LeaderEpoch(3), Offset(7))
    assert epochs.entries == ((1, 0), (3, 7))


def test_assigning_the_same_epoch_again_is_no_news() -> None:
    """The first assignment holds."""
    epochs = _epochs((1, 0))
    assert not epochs.assign(LeaderEpoch(1), Offset(5))
    assert epochs.entries == ((1, 0),)


def test_a_lower_epoch_drops_the_entries_that_contradict_it() -> None:
    """Epochs never fall along the log (I1)."""
    epochs = _epochs((1, 0), (4, 10), (6, 20))
    epochs.assign(LeaderEpoch(5), Offset(15))
    assert epochs.entries == ((1, 0), (4, 10), (5, 15))


def test_truncating_the_end_drops_epochs_that_begin_there_or_later() -> None:
    """An epoch whose first record is cut away wrote nothing."""
    epochs = _epochs((1, 0), (2, 10), (3, 20))
    assert epochs.truncate_from_end(Offset(10))
    assert epochs.entries == ((1, 0),)
    assert not epochs.truncate_from_end(Offset(10))


def test_truncating_the_start_moves_the_epoch_it_falls_in() -> None:
    """The epoch of the new first record begins at that record."""
    epochs = _epochs((1, 0), (2, 10), (3, 20))
    assert epochs.truncate_from_start(Offset(15))
    assert epochs.entries == ((2, 15), (3, 20))
    assert not epochs.truncate_from_start(Offset(15))
    assert not epochs.truncate_from_start(Offset(3))


def test_the_epoch_of_an_offset_is_the_last_that_began_before_it() -> None:
    """-1 before the first."""
    epochs = _epochs((2, 5), (4, 10))
    assert [epochs.epoch_for_offset(Offset(offset)) for offset in (4, 5, 9, 10, 99)] == [-1, 2, 2, 4, 4]

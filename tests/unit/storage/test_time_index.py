"""The time index: entries rise in time and offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.storage.index_file import CorruptIndex
from klamm.storage.time_index import TimeIndex

BASE = 1000


@pytest.fixture
def index(tmp_path: Path) -> TimeIndex:
    """An index with two entries."""
    index = TimeIndex(tmp_path / "00000000000000001000.timeindex", BASE, 48)
    index.reset()
    index.maybe_append(500, 1005)
    index.maybe_append(700, 1010)
    return index


def test_lookups_find_the_last_entry_that_is_not_younger(index: TimeIndex) -> None:
    """Before the first entry the segment's beginning is the answer."""
    assert index.lookup(499) == (-1, BASE)
    assert index.lookup(500) == (500, 1005)
    assert index.lookup(699) == (500, 1005)
    assert index.lookup(9999) == (700, 1010)


def test_an_entry_is_made_only_for_a_larger_timestamp(index: TimeIndex) -> None:
    """Records that are late change nothing."""
    index.maybe_append(700, 1020)
    index.maybe_append(600, 1030)
    assert index.last_entry() == (700, 1010)


def test_records_without_timestamps_make_no_entries(tmp_path: Path) -> None:
    """-1 is no time."""
    index = TimeIndex(tmp_path / "x", BASE, 48)
    index.reset()
    index.maybe_append(-1, 1005)
    assert index.entries == 0
    assert index.last_entry() == (-1, BASE)


def test_the_file_has_kafkas_format(index: TimeIndex) -> None:
    """Timestamp in eight bytes, relative offset in four, big-endian."""
    index.write()
    assert index.path.read_bytes() == bytes.fromhex("00000000000001f4 00000005 00000000000002bc 0000000a")


def test_the_last_entry_is_read_without_the_others(index: TimeIndex) -> None:
    """That is all that retention asks for."""
    index.write()
    index.unload()
    assert index.last_entry() == (700, 1010)
    assert not index.has_unwritten_entries


def test_one_entry_is_kept_for_the_roll(index: TimeIndex) -> None:
    """Full is one entry earlier than for the offset index."""
    assert not index.is_full
    index.maybe_append(800, 1020)
    assert index.is_full


@pytest.mark.parametrize(("offset", "left"), [(1005, 0), (1006, 1), (1010, 1), (1011, 2)])
def test_cutting_drops_entries_of_the_offset_and_above(index: TimeIndex, offset: int, left: int) -> None:
    """As in the offset index."""
    index.write()
    index.truncate_to(offset)
    assert index.entries == left


def test_falling_timestamps_are_reported(index: TimeIndex) -> None:
    """Such a file can't have been written here."""
    index.path.write_bytes(bytes.fromhex("00000000000002bc 00000005 00000000000001f4 0000000a"))
    index.reset()
    with pytest.raises(CorruptIndex):
        TimeIndex(index.path, BASE, 48).lookup(1)

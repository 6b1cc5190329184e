"""Tests the time index, whose entries rise in timestamp and offset."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.time_index import TimeIndex

BASE = 1000


@pytest.fixture
def index(tmp_path: Path) -> TimeIndex:
    """Returns an index with two entries."""
    index = TimeIndex(tmp_path / "00000000000000001000.timeindex", BASE, 48)
    index.reset()
    index.maybe_append(500, 1005)
    index.maybe_append(700, 1010)
    return index


def test_lookups_find_the_last_entry_that_is_not_younger(index: TimeIndex) -> None:
    """A lookup returns the last entry that is not younger, or the segment's base offset if there is none."""
    assert index.lookup(499) == (-1, BASE)
    assert index.lookup(500) == (500, 1005)
    assert index.lookup(699) == (500, 1005)
    assert index.lookup(9999) == (700, 1010)


def test_an_entry_is_made_only_for_a_larger_timestamp(index: TimeIndex) -> None:
    """A record adds an entry only if its timestamp is larger than that of the last entry."""
    index.maybe_append(700, 1020)
    index.maybe_append(600, 1030)
    assert index.last_entry() == (700, 1010)


def test_records_without_timestamps_make_no_entries(tmp_path: Path) -> None:
    """A record without a timestamp (-1) adds no entry."""
    index = TimeIndex(tmp_path / "x", BASE, 48)
    index.reset()
    index.maybe_append(-1, 1005)
    assert index.entries == 0
    assert index.last_entry() == (-1, BASE)


def test_the_file_has_kafkas_format(index: TimeIndex) -> None:
    """An entry has a timestamp in eight bytes and a relative offset in four, big-endian."""
    index.write()
    assert index.path.read_bytes() == bytes.fromhex("00000000000001f4 00000005 00000000000002bc 0000000a")


def test_the_last_entry_is_read_without_the_others(index: TimeIndex) -> None:
    """The last entry, which is all that retention needs, is available after an unload."""
    index.write()
    index.unload()
    assert index.last_entry() == (700, 1010)
    assert not index.has_unwritten_entries


def test_one_entry_is_kept_for_the_roll(index: TimeIndex) -> None:
    """A time index is full one entry before its size, because the roll adds an entry."""
    assert not index.is_full
    index.maybe_append(800, 1020)
    assert index.is_full


@pytest.mark.parametrize(("offset", "left"), [(1005, 0), (1006, 1), (1010, 1), (1011, 2)])
def test_cutting_drops_entries_of_the_offset_and_above(index: TimeIndex, offset: int, left: int) -> None:
    """A truncation removes the entries at and above the offset."""
    index.write()
    index.truncate_to(offset)
    assert index.entries == left


def test_falling_timestamps_are_reported(index: TimeIndex) -> None:
    """A file with falling timestamps raises CorruptIndex, because klamm cannot have written it."""
    index.path.write_bytes(bytes.fromhex("00000000000002bc 00000005 00000000000001f4 0000000a"))
    index.reset()
    with pytest.raises(CorruptIndex):
        TimeIndex(index.path, BASE, 48).lookup(1)

"""Tests lookup, truncation, writing and reading of the offset index."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.offset_index import OffsetIndex

BASE = 1000
_ENTRIES = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9000)), max_size=40)


def _index(path: Path, *entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex(path, BASE, 1024)
    index.reset()
    for offset, position in entries:
        index.append(offset, position)
    return index


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Returns the path of a file that does not exist yet."""
    return tmp_path / "00000000000000001000.index"


@given(steps=_ENTRIES, target=st.integers(BASE - 5, BASE + 2100), position=st.integers(0, 400_000))
def test_lookups_find_the_last_entry_that_is_not_above(
    steps: list[tuple[int, int]], target: int, position: int
) -> None:
    """A lookup by offset or by position returns the last entry that is not above it."""
    entries = []
    offset, at = BASE, 0
    for offset_step, position_step in steps:
        offset, at = offset + offset_step, at + position_step
        entries.append((offset, at))
    index = _index(Path("unused"), *entries)
    assert index.lookup(target) == max([entry for entry in entries if entry[0] <= target], default=(BASE, 0))
    assert index.last_entry_up_to(position) == max(
        [entry for entry in entries if entry[1] <= position], default=(BASE, 0)
    )


def test_the_file_has_kafkas_format(path: Path) -> None:
    """An entry has a relative offset and a position, four bytes each, big-endian."""
    index = _index(path, (1005, 0x1234), (1300, 0x5678))
    index.write()
    assert path.read_bytes() == bytes.fromhex("00000005 00001234 0000012c 00005678")


def test_entries_are_written_once_and_read_when_needed(path: Path) -> None:
    """An unloaded index is read from the file when needed, and unwritten entries stay in memory."""
    index = _index(path, (1005, 10))
    index.write()
    index.append(1010, 20)
    index.unload()
    assert index.has_unwritten_entries
    index.write()
    index.unload()
    assert index.last_entry() == (1010, 20)
    assert index.lookup(1007) == (1005, 10)
    assert index.entries == 2


@pytest.mark.parametrize(("offset", "left"), [(1004, 0), (1005, 0), (1006, 1), (1010, 1), (1011, 2)])
def test_cutting_drops_entries_of_the_offset_and_above(path: Path, offset: int, left: int) -> None:
    """A truncation removes the entries at and above the offset, in memory and in the file."""
    index = _index(path, (1005, 10), (1010, 20))
    index.write()
    index.truncate_to(offset)
    assert index.entries == left
    assert path.stat().st_size == 8 * left


def test_it_is_full_at_the_configured_size(path: Path) -> None:
    """An index is full at segment.index.bytes, rounded down to whole entries."""
    index = OffsetIndex(path, BASE, 17)
    index.reset()
    index.append(1001, 1)
    assert not index.is_full
    index.append(1002, 2)
    assert index.is_full


@pytest.mark.parametrize(
    "content",
    [
        bytes(7),
        bytes.fromhex("ffffffff 00000001"),
        bytes.fromhex("00000001 fffffff1 00000009 0000000a"),
        bytes.fromhex("00000009 00000009 00000001 0000000a"),
    ],
    ids=["part of an entry", "below the segment", "before the file", "falling"],
)
def test_a_file_that_can_not_be_an_index_is_reported(path: Path, content: bytes) -> None:
    """A malformed file raises CorruptIndex with the base offset, so that the caller can rebuild the index."""
    path.write_bytes(content)
    with pytest.raises(CorruptIndex) as corrupt:
        OffsetIndex(path, BASE, 1024).lookup(BASE)
    assert corrupt.value.base_offset == BASE


def test_a_missing_file_is_reported(path: Path) -> None:
    """A missing file raises CorruptIndex for a lookup and for the last entry."""
    with pytest.raises(CorruptIndex, match="does not exist"):
        OffsetIndex(path, BASE, 1024).last_entry()
    with pytest.raises(CorruptIndex, match="does not exist"):
        OffsetIndex(path, BASE, 1024).lookup(BASE)

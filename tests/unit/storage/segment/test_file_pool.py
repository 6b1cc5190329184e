"""Tests the limit on the number of open files."""

from __future__ import annotations

from klamm.storage.segment.file_pool import FilePool, default_open_files


class _File:
    def __init__(self) -> None:
        self.used = False
        self.is_open = True

    def release(self) -> None:
        self.is_open = False


def test_files_in_use_stay_open_and_others_go() -> None:
    """A full pool closes the oldest file first, but spares a file that was used since its last check."""
    pool = FilePool(3)
    files = [_File() for _ in range(5)]
    for file in files[:3]:
        pool.opened(file)
    files[0].used = True
    pool.opened(files[3])
    assert [file.is_open for file in files[:4]] == [True, False, True, True]
    pool.opened(files[4])
    assert [file.is_open for file in files] == [True, False, False, True, True]
    assert len(pool) == 3


def test_a_closed_file_makes_room() -> None:
    """A closed file makes room for another one, and closing a file again is harmless."""
    pool = FilePool(1)
    first, second = _File(), _File()
    pool.opened(first)
    pool.closed(first)
    pool.opened(second)
    pool.closed(first)
    assert first.is_open
    assert len(pool) == 1


def test_the_default_leaves_descriptors_for_connections() -> None:
    """The default limit lies between 64 and 16,384 files."""
    assert 64 <= default_open_files() <= 16_384

"""Tests the error texts of a broker that can't start."""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from klamm.broker.start_failure import address_failure, directory_failure
from klamm.errors import KlammError


def reason(number: int, directory: Path, path: Path | None = None) -> str:
    failure = directory_failure(OSError(number, os.strerror(number), str(path or directory)), directory)
    assert failure is not None
    return str(failure)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "no space is left on the disk of"),
        (errno.EDQUOT, "no space is left on the disk of"),
        (errno.EROFS, "is on a disk that is mounted read-only: mount it for writing"),
        (errno.EACCES, "give it to that user (chown)"),
        (errno.EMFILE, "allow the process more of them (ulimit -n"),
        (errno.EIO, "can't be used: Input/output error"),
    ],
)
def test_a_number_becomes_a_sentence(tmp_path: Path, number: int, said: str) -> None:
    """An error number becomes a sentence that names the folder or the file and says what to do."""
    text = reason(number, tmp_path, tmp_path / ".lock")
    assert said in text
    assert "Errno" not in text
    assert str(tmp_path) in text or number == errno.EMFILE


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    """A file in place of a folder is named, even in the middle of the path."""
    file = tmp_path / "file"
    file.touch()
    assert reason(errno.EEXIST, file).startswith(f"{file} is a file, and the data directory {file} has to be a folder")
    assert reason(errno.ENOTDIR, file / "data").startswith(f"{file} is a file, and the data directory {file / 'data'}")


def test_a_full_disk_is_seen_behind_other_errors(tmp_path: Path) -> None:
    """A full disk is recognised behind SQLite's error codes and in the causes of other errors; other errors stay
    unchanged."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA max_page_count = 1")
        with pytest.raises(sqlite3.OperationalError) as full:
            database.execute("CREATE TABLE a (b)")
    error = KlammError("the store failed")
    assert directory_failure(error, tmp_path) is None
    error.__cause__ = full.value
    assert "no space is left" in str(directory_failure(error, tmp_path))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EADDRINUSE, ""), "10.0.0.1:92 is in use; --listen HOST:PORT picks another, port 0 a free one"),
        (OSError(errno.EADDRNOTAVAIL, ""), "10.0.0.1 is not an address of this machine, so no broker can listen at"),
        (OSError(errno.EACCES, ""), "may not listen at 10.0.0.1:92: take a port from 1024 on"),
        (OSError(errno.ENFILE, ""), "too many files are open"),
        (OSError(errno.ENETDOWN, "Network is down"), "no broker can listen at 10.0.0.1:92: Network is down"),
        (socket.gaierror(-2, "Name not known"), "the host name of 10.0.0.1:92 is not known here (Name not known)"),
    ],
)
def test_an_address_that_can_not_be_used_is_explained(error: OSError, said: str) -> None:
    """The error for an unusable address says what to choose instead."""
    assert said in str(address_failure(error, "10.0.0.1", 92))
    assert "[::1]:92" in str(address_failure(OSError(errno.EADDRINUSE, ""), "::1", 92))

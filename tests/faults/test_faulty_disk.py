"""Tests the simulated faulty disk with plain files, because other tests rely on it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.support import faulty_disk
from tests.support.faulty_disk import FaultyDisk


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    """An empty disk."""
    reason = faulty_disk.why_not()
    if reason is not None:
        pytest.skip(reason)
    (tmp_path / "disk").mkdir()
    return FaultyDisk(tmp_path / "disk", tmp_path / "data")


def run(disk: FaultyDisk, program: str) -> str:
    """Runs a Python program in the disk's folder, and returns its output."""
    ran = subprocess.run(
        [sys.executable, "-c", "import os\n" + program],
        cwd=disk.root,
        env=os.environ | disk.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


WRITE = """
file = os.open("file", os.O_RDWR | os.O_CREAT, 0o644)
folder = os.open(".", os.O_RDONLY)
def write(data, at):
    return os.pwritev(file, [data], at)
"""


def test_what_was_synced_outlasts_the_power(disk: FaultyDisk) -> None:
    """Synced bytes survive a power failure. A part of any length of the unsynced bytes may survive, sometimes as
    zeros."""
    seen = set()
    for seed in range(40):
        program = WRITE + "write(b'a' * 100, 0); os.fdatasync(file); os.fsync(folder); write(b'b' * 100, 100)"
        run(disk, program) if seed == 0 else None
        if seed:
            (disk.root / "file").write_bytes(b"a" * 100)
            disk.start_journal()
            run(disk, WRITE + "write(b'b' * 100, 100)")
        disk.power_off(Random(seed))
        content = (disk.root / "file").read_bytes()
        assert content[:100] == b"a" * 100
        assert content[100:].rstrip(b"\0") == b"b" * len(content[100:].rstrip(b"\0"))
        seen.add((len(content), content[100:].endswith(b"\0")))
    assert (100, False) in seen
    assert any(100 < length < 200 for length, _ in seen)
    assert (200, True) in seen


def test_names_last_when_their_folder_was_synced(disk: FaultyDisk) -> None:
    """A replaced file may have the old content after a power failure until its folder is synced."""
    replace = """
with open("new", "wb") as new:
    new.write(b"new"); new.flush(); os.fsync(new.fileno())
os.replace("new", "name")
"""
    found = set()
    for seed in range(30):
        (disk.root / "name").write_bytes(b"old")
        disk.start_journal()
        run(disk, replace)
        disk.power_off(Random(seed))
        found.add((disk.root / "name").read_bytes())
    assert found == {b"old", b"new"}
    for seed in range(10):
        (disk.root / "name").write_bytes(b"old")
        disk.start_journal()
        run(disk, replace + "os.fsync(os.open('.', os.O_RDONLY))")
        disk.power_off(Random(seed))
        assert (disk.root / "name").read_bytes() == b"new"


def test_a_file_that_was_removed_may_come_back(disk: FaultyDisk) -> None:
    """A removed file may return after a power failure until its folder is synced."""
    found = set()
    for seed in range(20):
        (disk.root / "name").write_bytes(b"there")
        disk.start_journal()
        run(disk, "os.unlink('name')")
        disk.power_off(Random(seed))
        found.add((disk.root / "name").exists())
    assert found == {True, False}


def test_what_is_certain_outlasts_each_power_failure(disk: FaultyDisk) -> None:
    """`certain` contains only synced bytes of files with synced names, and these bytes survive a power failure."""
    program = """
def make(name):
    return os.open(name, os.O_RDWR | os.O_CREAT)
def synced_to(name, size):
    file = make(name); os.write(file, b"x" * size); os.fsync(file); return file
synced_to("whole", 10)
os.write(synced_to("grown", 10), b"y" * 5)
os.mkdir("folder"); synced_to("folder/inside", 10)
os.fsync(os.open(".", os.O_RDONLY)); os.fsync(os.open("folder", os.O_RDONLY))
synced_to("unnamed", 10)
os.mkdir("unnamed-folder"); synced_to("unnamed-folder/inside", 10)
os.fsync(os.open("unnamed-folder", os.O_RDONLY))
os.write(make("unsynced"), b"x" * 10)
os.rename("whole", "renamed")
"""
    (disk.root / "before").write_bytes(b"there")
    disk.start_journal()
    run(disk, program)
    certain = {str(path.relative_to(disk.root)): size for path, size in disk.certain().items()}
    assert certain == {"before": 5, "grown": 10, "folder/inside": 10}

    disk.power_off(Random(1))
    for name, size in certain.items():
        assert (disk.root / name).stat().st_size >= size


def test_writes_fail_when_they_are_told_to(disk: FaultyDisk) -> None:
    """Writes fail after the given number of writes, the given number of times, and torn after the given number of
    bytes."""
    disk.fail_writes(errno.ENOSPC, after=1, times=1, torn_bytes=3)
    told = run(
        disk,
        WRITE
        + """
for at in (0, 10, 20):
    try:
        print(write(b"x" * 10, at))
    except OSError as error:
        print(error.errno, os.fstat(file).st_size)
""",
    )
    assert told.split() == ["10", str(errno.ENOSPC), "13", "10"]


def test_syncs_fail_when_they_are_told_to(disk: FaultyDisk) -> None:
    """Syncs fail only for files whose path matches, until the disk is healed."""
    program = (
        WRITE + "\ntry:\n    os.fdatasync(file)\n    print('synced')\nexcept OSError as error:\n    print(error.errno)"
    )
    disk.fail_syncs(errno.EIO, matching="other")
    assert run(disk, program) == "synced\n"
    disk.fail_syncs(errno.EIO, matching="file")
    assert run(disk, program) == f"{errno.EIO}\n"
    disk.heal()
    assert run(disk, program) == "synced\n"

"""Tests a power failure below the file system: ext4 in a loop device is shut down while a broker writes to it.

The device contains only what the file system's journal and the broker's syncs have written; nothing is simulated. The
test needs permission to mount, and is skipped otherwise.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest
from tests.faults.load import endure
from tests.interop.broker_process import BrokerProcess

ROUNDS: Final = 3

SHUTDOWN: Final = 0x8004587D
"""EXT4_IOC_SHUTDOWN, which equals XFS_IOC_GOINGDOWN."""

WITHOUT_FLUSHING_THE_JOURNAL: Final = 2
"""EXT4_GOING_FLAGS_NOLOGFLUSH: like a power failure."""


class LoopDisk:
    """A file with ext4 in it, mounted at `folder`."""

    def __init__(self, image: Path, folder: Path) -> None:
        self.folder = folder
        self._image = image
        self._is_mounted = False

    def mount(self) -> None:
        """Mounts the file, which replays the journal. Raises CalledProcessError."""
        subprocess.run(["mount", "-o", "loop", self._image, self.folder], check=True, capture_output=True)
        self._is_mounted = True

    def shut_down(self) -> None:
        """Shuts the file system down: no later write reaches the device. Raises OSError if the kernel does not support
        it."""
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, SHUTDOWN, struct.pack("I", WITHOUT_FLUSHING_THE_JOURNAL))
        finally:
            os.close(descriptor)

    def unmount(self) -> None:
        """Unmounts the file system when no process uses it any more."""
        deadline = time.monotonic() + 60
        while self._is_mounted:
            ran = subprocess.run(["umount", self.folder], capture_output=True, text=True, check=False)
            self._is_mounted = ran.returncode != 0
            if self._is_mounted:
                assert time.monotonic() < deadline, ran.stderr
                time.sleep(0.05)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    """A mounted disk of 256 MB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a loop device needs root")
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("there is no mkfs.ext4")
    image, folder = tmp_path / "image", tmp_path / "mounted"
    folder.mkdir()
    with image.open("wb") as file:
        file.truncate(256 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True, capture_output=True)
    disk = LoopDisk(image, folder)
    try:
        disk.mount()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"loop devices can't be mounted here: {error.stderr.decode().strip()}")
    yield disk
    disk.unmount()


def test_a_file_system_that_is_shut_down_under_the_writer(disk: LoopDisk) -> None:
    """I1, I4, I8, I9, I10, I17 hold with klamm.fsync=ack: acknowledged records and offsets are on the device."""
    config = {"offsets.topic.num.partitions": "1", "klamm.fsync": "ack", "log.segment.bytes": "1048576"}
    (disk.folder.parent / "broker").mkdir()
    process = BrokerProcess(disk.folder.parent / "broker", config, data_directory=disk.folder / "data")

    def strike() -> None:
        # The process stops first, as with a power failure. In Linux 6.18 an fdatasync() that is in progress while ext4
        # is shut down may return without an error although nothing has reached the device; a process that went on would
        # acknowledge the records.
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        try:
            disk.shut_down()
        except OSError as error:
            pytest.skip(f"this kernel's ext4 can't be shut down: {error}")
        finally:
            process.kill()
        disk.unmount()
        disk.mount()

    try:
        endure(process, ROUNDS, Random(5), strike)
    finally:
        if process.is_running:
            process.kill()

"""Identifies the page cache under a data directory, as far as Linux tells. See `core/replication/run_mark.py`."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path
from typing import Final

from klamm.core.replication.run_mark import PageCache

__all__ = ["identify_page_cache"]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_ROOT: Final = Path("/")
_BLOCK_DEVICES: Final = Path("/sys/dev/block")
_AT_EMPTY_PATH: Final = 0x1000
_STATX_MNT_ID_UNIQUE: Final = 0x4000
_STATX_BYTES: Final = 256
_MNT_ID_AT: Final = 144


def identify_page_cache(directory: Path) -> PageCache | None:
    """Returns the identity of the page cache under a folder, None if the system does not tell it: no Linux, or no
    `/proc`."""
    try:
        boot_id = _BOOT_ID.read_text(encoding="ascii").strip()
        root, mount = _mount(_ROOT), _mount(directory)
        status = directory.stat()
    except (OSError, ValueError):
        return None
    if not boot_id or root is None or mount is None:
        return None
    return PageCache(boot_id, status.st_dev, status.st_ino, root, mount, _disk(status.st_dev))


def _mount(directory: Path) -> int | None:
    """Returns the number of the mount that a folder is on. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _unique_mount(descriptor) or _reusable_mount(descriptor)
    finally:
        os.close(descriptor)


def _unique_mount(descriptor: int) -> int | None:
    """Returns the number of the mount that no later mount gets (Linux 6.8), None if the system does not tell it."""
    try:
        statx = ctypes.CDLL(None).statx
    except (AttributeError, OSError):
        return None
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    if statx(descriptor, b"", _AT_EMPTY_PATH, _STATX_MNT_ID_UNIQUE, answer) != 0:
        return None
    if not int.from_bytes(answer.raw[:4], sys.byteorder) & _STATX_MNT_ID_UNIQUE:
        return None
    return int.from_bytes(answer.raw[_MNT_ID_AT : _MNT_ID_AT + 8], sys.byteorder)


def _reusable_mount(descriptor: int) -> int | None:
    """Returns the number of the mount, which a later mount may get. Raises OSError."""
    found = re.search(r"^mnt_id:\s*(\d+)$", Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii"), re.MULTILINE)
    return int(found[1]) if found is not None else None


def _disk(device: int) -> int | None:
    """Returns the sequence number of a disk, which no later disk gets (Linux 5.15). None if the file system is not on
    a block device."""
    folder = _BLOCK_DEVICES / f"{os.major(device)}:{os.minor(device)}"
    for path in (folder / "diskseq", folder / ".." / "diskseq"):  # the second one for a partition
        try:
            return int(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue
    return None

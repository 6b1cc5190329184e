"""A machine whose power can be cut: takes unsynced data away, and tells up to which offset the log was synced."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final

from tests.support.faulty_disk import FaultyDisk

__all__ = ["Power"]

_HEADER_BYTES: Final = 61
_LENGTH_FROM: Final = 12
"""Size of a batch's first two fields, which its length field does not count."""


class Power:
    """The power of the machine whose disk has the broker's data in `root`. The disk keeps its own files in `folder`."""

    def __init__(self, folder: Path, root: Path, random: Random) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._disk = FaultyDisk(folder, root)
        self._root = root
        self._random = random

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables for the broker's process."""
        return self._disk.environment

    def synced(self, partitions: Sequence[str]) -> dict[str, int]:
        """Returns, by partition, the offset below which no power loss can take a record. The broker must not write
        meanwhile."""
        certain = self._disk.certain()
        return {partition: _synced(self._root / partition, certain) for partition in partitions}

    def cut(self) -> None:
        """Takes away some or all unsynced data. The broker's process must have been killed before."""
        self._disk.power_off(self._random)


def _synced(folder: Path, certain: Mapping[Path, int]) -> int:
    """Returns the end of the last batch that is synced and whose preceding batches are synced."""
    end = 0
    for path in sorted(folder.glob("*.log")):
        if int(path.stem) > end:
            break
        data = path.read_bytes()
        size = certain.get(path, 0)
        at = 0
        while at + _HEADER_BYTES <= size:
            offset, length = struct.unpack_from(">qi", data, at)
            if at + _LENGTH_FROM + length > size:
                break
            (last_offset_delta,) = struct.unpack_from(">i", data, at + 23)
            end = offset + last_offset_delta + 1
            at += _LENGTH_FROM + length
    return end

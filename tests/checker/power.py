"""A machine whose power is cut: what is lost then, and up to where the log was on the disk for certain."""

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
"""A batch's length counts from behind itself."""


class Power:
    """The power of the machine whose disk has the broker's data in `root`; `folder` is for what the disk needs."""

    def __init__(self, folder: Path, root: Path, random: Random) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._disk = FaultyDisk(folder, root)
        self._root = root
        self._random = random

    @property
    def environment(self) -> Mapping[str, str]:
        """For the broker's process."""
        return self._disk.environment

    def synced(self, partitions: Sequence[str]) -> dict[str, int]:
        """By partition the offset below which no loss of power can take anything now. Nobody may be writing."""
        certain = self._disk.certain()
        return {partition: _synced(self._root / partition, certain) for partition in partitions}

    def cut(self) -> None:
        """Takes away what was not synced, or some of it, once the broker's process has been killed."""
        self._disk.power_off(self._random)


def _synced(folder: Path, certain: Mapping[Path, int]) -> int:
    """The end of the last batch that lies, as those before it do, in what is certain of the partition's segments."""
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

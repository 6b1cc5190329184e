"""Files that are lost while a machine is down, and are restored from a copy.

Only files whose loss a start must notice are removed: records that the disk reports as synced. Indexes are damaged as
well, but a start need not notice that.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from shutil import rmtree
from struct import Struct
from typing import Final, NamedTuple

from klamm.protocol.types import TopicPartition
from klamm.storage.log.gaps import GAP_SUFFIX
from klamm.storage.log_files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    deleted_to,
)

__all__ = ["Loss", "Vouched", "lose_something", "move_an_index_entry", "swap_an_index", "tear_an_index"]

_ENTRY: Final = Struct(">ii")
_INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


class Vouched(NamedTuple):
    """What the disk reports about a partition, apart from its segments."""

    recovery_point: int
    """The partition's batches are on the disk up to this offset, as the checkpoint says."""
    end: int
    """The partition's batches are on the disk up to this offset, as the checkpoint or a file in the folder says."""
    start: int | None
    """The offset at which the partition begins, if it is known."""


class Loss(NamedTuple):
    """A lost file of a partition's folder, or the lost folder."""

    where: TopicPartition
    what: str
    folder: Path
    files: dict[Path, bytes]
    """The lost content."""

    @property
    def is_there(self) -> bool:
        """Whether something is still lost."""
        return any(not path.exists() or path.read_bytes() != content for path, content in self.files.items())

    def is_named_in(self, reason: str) -> bool:
        """Whether `reason` says that the partition is offline because of this loss."""
        return str(self.folder) in reason and "Bring what is missing back from a copy" in reason

    def mend(self) -> None:
        """Restores the lost content."""
        self.folder.mkdir(exist_ok=True)
        for path, content in self.files.items():
            path.write_bytes(content)


def lose_something(where: TopicPartition, folder: Path, vouched: Vouched, random: Random) -> Loss | None:
    """Removes a segment or the folder, if a start must notice that. Skips a folder in which a cleaner was working."""
    files = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    if any(path.suffix in (".swap", ".cleaned", GAP_SUFFIX) for path in files):
        return None
    if vouched.recovery_point and random.random() < 0.25:
        rmtree(folder)
        return Loss(where, f"the folder of {where}", folder, files)
    start = max([vouched.start or 0, *(deleted_to(path.name) or 0 for path in files)])
    segments = [path for path in files if path.suffix == LOG_SUFFIX]
    ends = [*(int(path.stem) for path in segments[1:]), vouched.end]
    choices: list[tuple[Path, bool]] = []
    for index, (path, end) in enumerate(zip(segments, ends, strict=False)):
        if int(path.stem) < vouched.end and end > start and files[path]:
            choices.append((path, False))
            if index or len(segments) == 1 or vouched.start is not None or start:
                choices.append((path, True))
    if not choices:
        return None
    path, is_deleted = random.choice(choices[:2] if random.random() < 0.3 else choices)
    if is_deleted:
        path.unlink()
    else:
        path.write_bytes(b"")
    what = f"{path.name} of {where}, which is {'deleted' if is_deleted else 'emptied'}"
    return Loss(where, what, folder, {path: files[path]})


def tear_an_index(folder: Path, random: Random) -> str | None:
    """Removes the last byte of an index; prefers an index of aborted transactions."""
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in _INDEX_SUFFIXES and path.stat().st_size]
    transactional = [path for path in paths if path.suffix == TRANSACTION_INDEX_SUFFIX]
    if not paths:
        return None
    torn = random.choice(transactional or paths)
    torn.write_bytes(torn.read_bytes()[:-1])
    return f"{torn.name} of {folder.name} is torn"


def move_an_index_entry(folder: Path, random: Random) -> str | None:
    """Changes the position in an entry of an offset index, often to a position within the header of the same batch."""
    paths = [
        path for path in sorted(folder.iterdir()) if path.suffix == INDEX_SUFFIX and path.stat().st_size >= _ENTRY.size
    ]
    if not paths:
        return None
    path = random.choice(paths)
    content = bytearray(path.read_bytes())
    at = random.randrange(len(content) // _ENTRY.size) * _ENTRY.size
    offset, position = _ENTRY.unpack_from(content, at)
    moved = random.choice((position + random.randrange(1, 61), random.randrange(-(2**31), 2**31)))
    _ENTRY.pack_into(content, at, offset, min(moved, 2**31 - 1))
    path.write_bytes(content)
    return f"{path.name} of {folder.name} has a wrong position at byte {at}"


def swap_an_index(folder: Path, random: Random) -> str | None:
    """Replaces the offset index of a segment by the index of another segment."""
    paths = sorted(path for path in folder.iterdir() if path.suffix == INDEX_SUFFIX)
    if len(paths) < 2:
        return None
    taken, given = random.sample(paths, 2)
    given.write_bytes(taken.read_bytes())
    return f"{given.name} of {folder.name} becomes {taken.name}"

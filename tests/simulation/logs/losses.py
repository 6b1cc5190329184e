"""Files that go while a machine is down, and come back when somebody brings them back from a copy.

Only what a start has to notice goes: records that the disk vouches for. And indexes, which nobody has to miss.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Final, NamedTuple

from klamm.protocol.types import TopicPartition
from klamm.storage.gaps import GAP_SUFFIX
from klamm.storage.log_files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    deleted_to,
)

__all__ = ["Loss", "Vouched", "lose_something", "swap_an_index", "tear_an_index"]

_INDEX_SUFFIXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


class Vouched(NamedTuple):
    """What the disk says of a partition beside its segments."""

    recovery_point: int
    """Its batches are there up to here, as the checkpoint says."""
    end: int
    """Its batches are there up to here, as the checkpoint or a file in the folder says."""
    start: int | None
    """It begins here, if that is known."""


class Loss(NamedTuple):
    """Something that was in the folder of a partition, or the folder."""

    where: TopicPartition
    what: str
    folder: Path
    files: dict[Path, bytes]
    """What it was."""

    @property
    def is_there(self) -> bool:
        """Whether it is still lost."""
        return any(not path.exists() or path.read_bytes() != content for path, content in self.files.items())

    def is_named_in(self, reason: str) -> bool:
        """Whether the partition is offline for its sake."""
        return str(self.folder) in reason and "Bring what is missing back from a copy" in reason

    def mend(self) -> None:
        """Bring it back."""
        self.folder.mkdir(exist_ok=True)
        for path, content in self.files.items():
            path.write_bytes(content)


def lose_something(where: TopicPartition, folder: Path, vouched: Vouched, random: Random) -> Loss | None:
    """Lets a segment or the folder go, if that has to be noticed. A folder that a cleaner was busy in is left alone."""
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
    """Takes the last byte of an index, or an index of aborted transactions first of all."""
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in _INDEX_SUFFIXES and path.stat().st_size]
    transactional = [path for path in paths if path.suffix == TRANSACTION_INDEX_SUFFIX]
    if not paths:
        return None
    torn = random.choice(transactional or paths)
    torn.write_bytes(torn.read_bytes()[:-1])
    return f"{torn.name} of {folder.name} is torn"


def swap_an_index(folder: Path, random: Random) -> str | None:
    """Gives a segment the offset index of another."""
    paths = sorted(path for path in folder.iterdir() if path.suffix == INDEX_SUFFIX)
    if len(paths) < 2:
        return None
    taken, given = random.sample(paths, 2)
    given.write_bytes(taken.read_bytes())
    return f"{given.name} of {folder.name} becomes {taken.name}"

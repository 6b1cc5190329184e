"""A simulated disk for a process under test, with failing writes and syncs and with power failures.

`faulty_disk.c`, loaded with LD_PRELOAD, makes writes and syncs below one folder fail, tears writes, makes syncs slow,
and keeps a journal of synced content and names. `power_off` then changes the folder to a state that POSIX allows after
a power failure. A file keeps its synced content; of the rest it keeps nothing, a part, or zeros. Names can be created,
replaced or removed after the last sync of their folder; any number of the last of these changes are undone. The library
does not see SQLite's files, nor changes from before `start_journal`, and these stay as they are.
"""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

__all__ = ["FaultyDisk", "why_not"]

_SOURCE: Final = Path(__file__).with_suffix(".c")
_FIELDS: Final = (
    "write_error",
    "writes_before",
    "writes_failing",
    "torn_bytes",
    "sync_error",
    "syncs_before",
    "syncs_failing",
    "sync_ms",
    "writes",
    "syncs",
)
_MATCHING_BYTES: Final = 256
_CONTROL_BYTES: Final = 4 * len(_FIELDS) + _MATCHING_BYTES
ALWAYS: Final = -1


@cache
def why_not() -> str | None:
    """Returns why the faulty disk cannot run on this machine, or None if it can."""
    if not os.path.isdir("/proc/self/fd"):
        return "the library that makes a disk fail needs Linux's /proc"
    if shutil.which("gcc") is None:
        return "the library that makes a disk fail has to be compiled, and there is no gcc"
    return None


@dataclass
class _Journal:
    """The state of the disk as the lines of the journal describe it."""

    synced_bytes: dict[int, int] = field(default_factory=dict)
    """By inode, the number of bytes of the file that are synced to the disk."""
    unsynced_names: list[list[str]] = field(default_factory=list)
    """The changes of names after the last sync of their folder, oldest first."""


class FaultyDisk:
    """A disk for files below `root`, in processes that are started with `environment`."""

    def __init__(self, folder: Path, root: Path) -> None:
        """Compiles the library into `folder`, which must be on the same file system as `root`."""
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._library = folder / "faulty_disk.so"
        self._journal = folder / "journal"
        self._keep = folder / "kept"
        control = folder / "control"
        command = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(self._library)]
        subprocess.run([*command, str(_SOURCE), "-ldl", "-lpthread"], check=True, capture_output=True)
        control.write_bytes(bytes(_CONTROL_BYTES))
        with control.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), _CONTROL_BYTES)
        self.environment = {
            "LD_PRELOAD": str(self._library),
            "FAULTY_DISK_ROOT": str(root.resolve()),
            "FAULTY_DISK_CONTROL": str(control),
            "FAULTY_DISK_JOURNAL": str(self._journal),
            "FAULTY_DISK_KEEP": str(self._keep),
        }
        self._before: dict[int, int] = {}
        self.start_journal()

    # -- faults --------------------------------------------------------------------------------------------------------

    def fail_writes(
        self, error: int, *, after: int = 0, times: int = ALWAYS, torn_bytes: int = 0, matching: str = ""
    ) -> None:
        """Makes writes fail after `after` writes, `times` times; the first failing write writes `torn_bytes` bytes."""
        self._set(writes_before=after, writes_failing=times, torn_bytes=torn_bytes, matching=matching)
        self._set(write_error=error)

    def fail_syncs(self, error: int, *, after: int = 0, times: int = ALWAYS, matching: str = "") -> None:
        """Makes fsync and fdatasync fail after `after` calls, `times` times."""
        self._set(syncs_before=after, syncs_failing=times, matching=matching)
        self._set(sync_error=error)

    def slow_syncs(self, milliseconds: int) -> None:
        """Makes each fsync and fdatasync take at least this time."""
        self._set(sync_ms=milliseconds)

    def heal(self) -> None:
        """Ends all faults."""
        self._set(write_error=0, sync_error=0, sync_ms=0, matching="")

    @property
    def syncs(self) -> int:
        """The number of syncs so far."""
        return self._get("syncs")

    def _set(self, matching: str | None = None, **values: int) -> None:
        for name, value in values.items():
            struct.pack_into("<i", self._control, 4 * _FIELDS.index(name), value)
        if matching is not None:
            start = 4 * len(_FIELDS)
            self._control[start : start + _MATCHING_BYTES] = matching.encode().ljust(_MATCHING_BYTES, b"\0")

    def _get(self, name: str) -> int:
        return int(struct.unpack_from("<i", self._control, 4 * _FIELDS.index(name))[0])

    # -- power ---------------------------------------------------------------------------------------------------------

    def start_journal(self) -> None:
        """Starts a new journal, in which all existing files count as synced. No process may use the disk meanwhile."""
        self._journal.write_bytes(b"")
        shutil.rmtree(self._keep, ignore_errors=True)
        self._keep.mkdir()
        self._before = {
            status.st_ino: status.st_size for path in self._files() if (status := path.stat(follow_symlinks=False))
        }

    def certain(self) -> dict[Path, int]:
        """Returns the files that survive any power failure now, each with the number of bytes that survive."""
        journal = self._read_journal()
        uncertain = {Path(place) for _, *places in journal.unsynced_names for place in places if os.path.isabs(place)}
        found = {}
        for path in self._files():
            # A process that runs may rename a temporary file meanwhile.
            with suppress(FileNotFoundError):
                if uncertain.isdisjoint((path.resolve(), *path.resolve().parents)):
                    found[path] = self._synced_bytes(journal, path.stat(follow_symlinks=False))
        return found

    def _synced_bytes(self, journal: _Journal, status: os.stat_result) -> int:
        return min(journal.synced_bytes.get(status.st_ino, self._before.get(status.st_ino, 0)), status.st_size)

    def power_off(self, random: Random) -> None:
        """Changes the folder to a possible state after a power failure. The processes must have been killed before."""
        journal = self._read_journal()
        names = journal.unsynced_names
        for change in reversed(names[random.randint(0, len(names)) :]):
            self._undo(change)
        for path in list(self._files()):
            status = path.stat(follow_symlinks=False)
            synced = self._synced_bytes(journal, status)
            if synced < status.st_size:
                _lose_unsynced(path, synced, status.st_size, random)
        self.start_journal()

    def _files(self) -> list[Path]:
        return [path for path in self.root.rglob("*") if path.is_file() and ".sqlite" not in path.name]

    def _read_journal(self) -> _Journal:
        journal = _Journal(dict(self._before))
        for line in self._journal.read_text(encoding="utf-8").splitlines():
            kind, *fields = line.split("\t")
            if kind == "content":
                inode = int(fields[0])
                journal.synced_bytes[inode] = max(journal.synced_bytes.get(inode, 0), int(fields[1]))
            elif kind == "cut":
                inode = int(fields[0])
                journal.synced_bytes[inode] = min(journal.synced_bytes.get(inode, 0), int(fields[1]))
            elif kind == "folder":
                journal.unsynced_names = [
                    change for change in journal.unsynced_names if os.path.dirname(change[1]) != fields[0]
                ]
            else:
                journal.unsynced_names.append([kind, *fields])
        return journal

    def _undo(self, change: list[str]) -> None:
        kind, path, *others = change
        if kind == "made":
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.unlink(path)
        elif kind == "renamed":
            if os.path.lexists(others[0]):
                os.rename(others[0], path)
            self._bring_back(others[0], others[1])
        elif kind == "removed":
            self._bring_back(path, others[0])

    def _bring_back(self, path: str, number: str) -> None:
        kept = self._keep / number
        if kept.exists() and os.path.isdir(os.path.dirname(path)) and not os.path.lexists(path):
            os.link(kept, path)


def _lose_unsynced(path: Path, synced: int, size: int, random: Random) -> None:
    """Removes the unsynced end of a file: all of it, a part from a random position, or only its content."""
    kept = random.choice((synced, random.randint(synced, size)))
    with path.open("r+b") as file:
        file.truncate(kept)
        if random.random() < 0.3:
            file.truncate(size)  # the length was written, the content was not

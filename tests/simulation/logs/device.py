"""A disk under the real log: it knows which data were synced, and so which data a crash may remove.

The files lie in a folder, in memory if possible, and klamm's storage works on them as usual. Calls that change
something go through this module. A sync makes a copy of the synced data. After a power failure, each file has the
synced content and some, all or none of the later content: cut at any byte, out of order, or with zeros. A folder has
the names of some moment since its last sync. If only the process dies, all data stay except the write in progress.

Random values come from the world's generator, in the order of the calls. Folders are listed in the order of names.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from pathlib import Path
from random import Random
from shutil import rmtree
from types import TracebackType
from typing import Any, Final, Self
from unittest.mock import patch

__all__ = ["Crash", "Device", "Image", "Strike"]

Image = dict[str, bytes | None]
"""The content of a folder: the content of each file by its path in the folder, None for a folder."""

_MOST_STATES: Final = 24
"""Number of states of a folder that are kept since its last sync."""
_SHORTEST_BLOCK: Final = 8
"""In bytes, far shorter than those of disks."""


class Strike(Enum):
    """A cause for the end of a process, in the middle of a call."""

    KILL = "the process is killed"
    POWER = "the power goes"


class Crash(BaseException):
    """The end of the process; only the world catches it."""


class _File:
    __slots__ = ("durable", "has_failed", "last", "path")

    def __init__(self, path: str, durable: bytes = b"") -> None:
        self.path = path
        self.durable = durable
        """The content that the disk certainly has."""
        self.last: bytes | None = None
        """The content when the last name of the file was removed."""
        self.has_failed = False
        """Whether a sync failed. Later syncs then report success although the data are lost (Linux marks the pages
        clean).
        """

    def content(self) -> bytes:
        if self.last is not None:
            return self.last
        try:
            with open(self.path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return self.durable  # It was removed with its folder, not by a call that the device sees.


_READ_IN_PLACE: Final = (".log", ".index", ".timeindex")
"""Files that are opened to read parts of them; the writer of such a file opens it, too."""

_Names = dict[str, "_File | str"]
"""The content of a folder by name: files, and the paths of folders."""


class Device:
    """The disk of one world. `root` is the simulated folder."""

    def __init__(self, root: Path, random: Random, note: Callable[..., None]) -> None:
        self._root = str(root)
        self._random = random
        self._note = note
        self._inodes: dict[int, _File | str] = {}
        self._states: dict[str, list[_Names]] = {}
        self._real: dict[str, Callable[..., Any]] = {}
        self._is_passing = False
        self._is_gone = False
        self.calls = 0
        self.boots = 0
        """How often the machine has lost its power, and its page cache."""
        self._strike: tuple[int, Strike] | None = None
        self.image: Image | None = None
        """The data that are left after a power failure."""
        self.free_bytes: int | None = None
        """Number of bytes that can still be written, if the disk is filling up."""
        self.error_rate = 0.0
        """Probability that a write fails."""
        self.failing_syncs = 0
        """Number of the next syncs that fail."""
        self.has_failed = False
        """Whether a write or a sync of the present or latest process has failed."""
        self.read_error_rate = 0.0
        """Probability that a read fails, or that a file can't be opened for reading."""

    # The process

    @property
    def is_gone(self) -> bool:
        """Whether the process was struck and has not started again."""
        return self._is_gone

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Leads all calls through the device while the context is open."""
        replacements = self.replacements()
        self.use({name: getattr(os, name) for name in replacements})
        with patch.multiple(os, **replacements):
            yield

    def use(self, real: dict[str, Callable[..., Any]]) -> None:
        """Sets the calls of the operating system, by name."""
        self._real = real

    def replacements(self) -> dict[str, Any]:
        """Returns the device's calls by the name of the call that each of them replaces."""
        return {
            "open": self._open,
            "write": lambda fd, data: self._write("write", fd, [data]),
            "pwrite": lambda fd, data, at: self._write("pwrite", fd, [data], at),
            "pwritev": lambda fd, data, at: self._write("pwritev", fd, data, at),
            "pread": self._pread,
            "fsync": lambda fd: self._sync("fsync", fd),
            "fdatasync": lambda fd: self._sync("fdatasync", fd),
            "ftruncate": self._ftruncate,
            "truncate": self._truncate,
            "posix_fadvise": self._advise,
            "rename": lambda old, new, **options: self._rename("rename", old, new, **options),
            "replace": lambda old, new, **options: self._rename("replace", old, new, **options),
            "unlink": self._unlink,
            "mkdir": self._mkdir,
            "listdir": lambda path=".": sorted(self._real["listdir"](path)),
            "scandir": lambda path=".": _Sorted(self._real["scandir"](path)),
        }

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Lets the world itself read and change files while the context is open."""
        was, self._is_passing = self._is_passing, True
        try:
            yield
        finally:
            self._is_passing = was

    def arm(self, strike: Strike, calls: int) -> None:
        """Lets the process die in the middle of one of the next calls that change something."""
        self._strike = (self.calls + calls, strike)

    def disarm(self) -> None:
        """Lets the process live, if a strike was armed."""
        self._strike = None

    def strike(self, strike: Strike) -> None:
        """Lets the process die now, between two calls; its later calls have no effect."""
        self._strike = None
        self._is_gone = True
        self.boots += strike is Strike.POWER
        self.image = self._survivors() if strike is Strike.POWER else None

    def begin_life(self) -> None:
        """Starts the machine again: writes the surviving data to the disk, and allows a new process."""
        self._is_gone = self.has_failed = False
        self._strike = None
        if self.image is None:
            return
        with self.passing():
            for entry in self._real["scandir"](self._root):
                if entry.is_dir():
                    rmtree(entry.path)
                else:
                    self._real["unlink"](entry.path)
            for name, content in sorted(self.image.items()):
                path = os.path.join(self._root, name)
                if content is None:
                    self._real["mkdir"](path)
                else:
                    with open(path, "wb") as file:
                        file.write(content)
        self.image = None
        self._inodes.clear()
        self._states.clear()
        self._adopt_synced(self._root)

    def _adopt_synced(self, folder: str) -> None:
        names = self._list(folder)
        self._states[folder] = [names]
        for item in names.values():
            if isinstance(item, str):
                self._adopt_synced(item)
            else:
                item.durable = item.content()

    @property
    def path(self) -> Path:
        """The simulated folder."""
        return Path(self._root)

    def is_mine(self, path: object) -> bool:
        """Returns whether the path is in the simulated folder."""
        return isinstance(path, str | os.PathLike) and str(path).startswith(self._root)

    def knows(self, inode: int) -> bool:
        """Returns whether the file is in the simulated folder."""
        return inode in self._inodes

    def drop(self, path: str) -> None:
        """Removes a file or a folder of files from the disk, for the world itself."""
        with self.passing():
            if os.path.isdir(path):
                for name in self._real["listdir"](path):
                    self._will_go(os.path.join(path, name))
                rmtree(path)
            else:
                self._will_go(path)
                self._real["unlink"](path)
        for state in self._states.get(self._root, []):
            state.pop(os.path.basename(path), None)

    def adopt(self, folder: str) -> None:
        """Syncs a new folder that the world itself has written, and its name."""
        self._adopt_synced(folder)
        for state in self._states.setdefault(self._root, [{}]):
            state[os.path.basename(folder)] = folder

    def turn(self, path: Path, at: int, bit: int) -> None:
        """Flips a bit on the disk, and in the copy of the synced data."""
        content = bytearray(path.read_bytes())
        content[at] ^= 1 << bit
        path.write_bytes(content)
        file = self._inodes.get(path.stat().st_ino)
        if isinstance(file, _File) and at < len(file.durable):
            file.durable = file.durable[:at] + bytes([file.durable[at] ^ 1 << bit]) + file.durable[at + 1 :]

    def settle(self) -> bool:
        """Syncs files that the world itself has written, removed or restored; returns False if a sync of a file has
        failed.
        """
        if any(isinstance(item, _File) and item.has_failed for item in self._inodes.values()):
            return False
        self._inodes.clear()
        self._states.clear()
        self._adopt_synced(self._root)
        return True

    # Data that survive a power failure

    def _survivors(self) -> Image:
        image: Image = {}
        self._gather(self._root, "", image)
        return image

    def _gather(self, folder: str, shown: str, image: Image) -> None:
        """Adds the content of a folder, whose name is `shown` in the image."""
        states = self._states.get(folder) or [{}]
        draw = self._random.random()
        state = states[-1] if draw < 0.4 else states[0] if draw < 0.65 else self._random.choice(states)
        for name in sorted(state):
            item = state[name]
            where = os.path.join(shown, name)
            if isinstance(item, str):
                image[where] = None
                self._gather(item, where, image)
            else:
                image[where] = self._surviving(item)

    def _surviving(self, file: _File) -> bytes:
        """Returns a content that the file may have after a power failure."""
        durable, written = file.durable, file.content()
        if durable == written:
            return durable
        random = self._random
        sure = _common(durable, written)
        draw = random.random()
        if draw < 0.25:
            return durable
        if draw < 0.45 and not file.has_failed:
            return written
        cut = random.randint(sure, len(written))
        if draw < 0.75:
            return written[:cut] if len(written) >= len(durable) else durable
        if draw < 0.85:
            return written[:cut] + bytes(random.randint(cut, len(written)) - cut)
        # Blocks reach the disk in any order: one in the middle may be missing. In a shorter one could be the leader
        # epoch of a batch alone, which no CRC covers.
        until = max(random.randint(cut, len(written)), min(cut + _SHORTEST_BLOCK, len(written)))
        return written[:cut] + bytes(until - cut) + written[until:]

    # Calls

    def _mine(self, descriptor: int) -> _File | str | None:
        return self._inodes.get(os.fstat(descriptor).st_ino)

    def _step(self) -> bool:
        """Counts a call that changes something; returns whether the process dies in this call, which is then done only
        in part.
        """
        if self._is_gone:
            raise OSError(errno.EIO, "the process is no more")
        self.calls += 1
        return self._strike is not None and self.calls >= self._strike[0]

    def _crash(self, what: str) -> Crash:
        """Returns the exception for the armed strike."""
        assert self._strike is not None
        strike = self._strike[1]
        self._note("%s during %s", strike, what)
        self.strike(strike)
        return Crash(what)

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        real = self._real["open"]
        if self._is_passing or dir_fd is not None or not self.is_mine(path):
            return int(real(path, flags, mode, dir_fd=dir_fd))
        name = str(path)
        is_new = bool(flags & os.O_CREAT) and not os.path.exists(name)
        if is_new or flags & os.O_TRUNC:
            if self._step():
                raise self._crash(f"open of {self._short(name)}")
            if is_new and self.free_bytes is not None and self.free_bytes <= 0:
                self.has_failed = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif name.endswith(_READ_IN_PLACE):
            self._fail_some_reads()
        descriptor = int(real(path, flags, mode))
        inode = os.fstat(descriptor).st_ino
        if is_new:
            self._inodes[inode] = _File(name)
            self._changed(os.path.dirname(name))
        elif inode not in self._inodes:
            self._inodes[inode] = name if os.path.isdir(name) else _File(name)
        return descriptor

    def _write(self, call: str, descriptor: int, data: Iterable[Any], *at: int) -> int:
        file = None if self._is_passing else self._mine(descriptor)
        real = self._real[call]
        if file is None:
            return int(real(descriptor, data, *at) if call == "pwritev" else real(descriptor, *data, *at))
        assert isinstance(file, _File)
        content = b"".join(bytes(each) for each in data)

        def put(part: bytes) -> int:
            return int(real(descriptor, [part] if call == "pwritev" else part, *at))

        if self._step():
            put(content[: self._random.randint(0, len(content))])
            raise self._crash(f"{call} to {self._short(file.path)}")
        if self.free_bytes is not None:
            if self.free_bytes < len(content):
                self.has_failed = True
                fits, self.free_bytes = content[: self.free_bytes], 0
                if not fits:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return put(fits)
            self.free_bytes -= len(content)
        if self.error_rate and self._random.random() < self.error_rate:
            self.has_failed = True
            put(content[: self._random.randint(0, len(content))])
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return put(content)

    def _pread(self, descriptor: int, length: int, at: int) -> bytes:
        if self.read_error_rate and not self._is_passing and self._mine(descriptor) is not None:
            self._fail_some_reads()
        return bytes(self._real["pread"](descriptor, length, at))

    def _fail_some_reads(self) -> None:
        if self.read_error_rate and self._random.random() < self.read_error_rate:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _sync(self, call: str, descriptor: int) -> None:
        item = None if self._is_passing else self._mine(descriptor)
        if item is None:
            self._real[call](descriptor)
            return
        if self._step():
            raise self._crash(call)
        if isinstance(item, str):
            self._states[item] = [self._list(item)]
            return
        if self.failing_syncs:
            self.failing_syncs -= 1
            self.has_failed = item.has_failed = True
            self._note("%s of %s fails", call, self._short(item.path))
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if not item.has_failed:
            item.durable = item.content()

    def _advise(self, descriptor: int, offset: int, length: int, advice: int) -> None:
        item = None if self._is_passing else self._mine(descriptor)
        if isinstance(item, _File) and item.has_failed and advice == os.POSIX_FADV_DONTNEED:
            # The cached pages are dropped, and with them the data that a failed sync has not written to the disk.
            content = self._surviving(item)
            with open(item.path, "r+b") as file:
                file.write(content)
                file.truncate()
            item.durable = content
            item.has_failed = False
        self._real["posix_fadvise"](descriptor, offset, length, advice)

    def _ftruncate(self, descriptor: int, length: int) -> None:
        if not self._is_passing and self._mine(descriptor) is not None and self._step():
            raise self._crash("ftruncate")
        self._real["ftruncate"](descriptor, length)

    def _truncate(self, path: Any, length: int) -> None:
        if not self._is_passing and self.is_mine(path) and self._step():
            raise self._crash(f"truncate of {self._short(str(path))}")
        self._real["truncate"](path, length)

    def _rename(self, call: str, old: Any, new: Any, **options: Any) -> None:
        if self._is_passing or not self.is_mine(old):
            self._real[call](old, new, **options)
            return
        if self._step():
            raise self._crash(f"rename of {self._short(str(old))}")
        self._will_go(str(new))
        self._real[call](old, new)
        item = self._inodes.get(os.stat(new).st_ino)
        if isinstance(item, _File):
            item.path = str(new)
        elif str(old) in self._states:
            self._rename_folder(str(old), str(new))
        self._changed(os.path.dirname(str(old)))

    def _rename_folder(self, old: str, new: str) -> None:
        """Takes over the new name of a folder of files."""
        self._states[new] = self._states.pop(old)
        for inode, item in self._inodes.items():
            if item == old:
                self._inodes[inode] = new
            elif isinstance(item, _File) and os.path.dirname(item.path) == old:
                item.path = os.path.join(new, os.path.basename(item.path))
        for state in self._states.get(os.path.dirname(old), []):
            for name, item in state.items():
                if item == old:
                    state[name] = new

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        if self._is_passing or dir_fd is not None or not self.is_mine(path):
            self._real["unlink"](path, dir_fd=dir_fd)
            return
        if self._step():
            raise self._crash(f"unlink of {self._short(str(path))}")
        self._will_go(str(path))
        self._real["unlink"](path)
        self._changed(os.path.dirname(str(path)))

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if self._is_passing or dir_fd is not None or not self.is_mine(path):
            self._real["mkdir"](path, mode, dir_fd=dir_fd)
            return
        if self._step():
            raise self._crash(f"mkdir of {self._short(str(path))}")
        self._real["mkdir"](path, mode)
        self._states[str(path)] = [{}]
        self._changed(os.path.dirname(str(path)))

    # Names

    def _will_go(self, path: str) -> None:
        try:
            item = self._inodes.pop(os.stat(path).st_ino, None)
        except FileNotFoundError:
            return
        if isinstance(item, _File):
            item.last = item.content()

    def _changed(self, folder: str) -> None:
        """Keeps the new names of a folder."""
        states = self._states.setdefault(folder, [{}])
        states.append(self._list(folder))
        if len(states) > _MOST_STATES:
            del states[1 + self._random.randrange(_MOST_STATES - 2)]

    def _list(self, folder: str) -> _Names:
        names: _Names = {}
        inodes = self._inodes
        for entry in self._real["scandir"](folder):
            inode = entry.inode()
            item = inodes.get(inode)
            if item is None or isinstance(item, str) != entry.is_dir():  # The number may be used again.
                item = inodes[inode] = entry.path if entry.is_dir() else _File(entry.path)
            names[entry.name] = entry.path if isinstance(item, str) else item
        return names

    def _short(self, path: str) -> str:
        return path.removeprefix(self._root).lstrip("/")


class _Sorted(AbstractContextManager[Iterator[Any]]):
    """The result of `os.scandir`, in the same order on every machine."""

    def __init__(self, entries: Any) -> None:
        with entries:
            self._entries = iter(sorted(entries, key=lambda entry: entry.name))

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entries = iter(())

    def close(self) -> None:
        """See `os.scandir`."""


def _common(one: bytes, other: bytes) -> int:
    """Returns the number of bytes at the beginning that both have in common."""
    length = min(len(one), len(other))
    if one[:length] == other[:length]:
        return length
    low, high = 0, length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle)
    return low

"""Folders of checkpoints and of the sink: on a local path, or on any file system that `pyarrow.fs` knows.

A location is a path as in Hadoop, or a URI whose path is not percent-encoded, again as in Hadoop. A query behind `?` is
for `pyarrow.fs`.

A local folder needs no pyarrow, whose import would take longer than the whole commit of a small micro-batch.
The methods raise `OSError`. Names are relative to the folder, with slashes.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, cast
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from pyarrow import fs

__all__ = [
    "Folder",
    "absolute_location",
    "folder_at",
    "folder_and_name",
    "local_path_of_uri",
    "without_credentials",
]

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
# Hadoop's names of S3, which pyarrow does not know.
_SCHEMES_OF_S3: Final = ("s3a:", "s3n:")
_FILE: Final = re.compile(r"file:(?://[^/]*)?", re.IGNORECASE)
_REMOTE: Final = re.compile(r"(?P<place>[^/]*//[^/?]*)(?P<path>[^?]*)(?P<query>.*)", re.DOTALL)
# In the URIs of pyarrow: key and secret before the host, secrets of Azure as parameters. Behind a host, there may be a
# port, and an @ in the path. A secret may have slashes, although pyarrow then refuses it.
_USER_AND_SECRET: Final = re.compile(r"(?<=://)[^/@:?]*:(?!\d*(?:/|$))[^?]*(?=@)")
_SECRET_PARAMETER: Final = re.compile(r"(?<=[?&])([^=&]*(?:secret|password|token|key|sig)[^=&]*)=[^&]*", re.IGNORECASE)


class Folder(Protocol):
    """A folder with its subfolders."""

    def read(self, name: str) -> bytes | None:
        """Returns a file's content; None if there is no such file."""

    def open_to_read(self, name: str) -> IO[bytes]:
        """Opens a file. Raises `FileNotFoundError` if there is none."""

    def open_to_write(self, name: str) -> IO[bytes]:
        """Creates a file and the folders above it."""

    def replace(self, name: str, content: bytes) -> None:
        """Writes a file and the folders above it. A reader sees the old content or the new one."""

    def names(self, name: str) -> list[str]:
        """Returns the names in a subfolder; none if it does not exist."""

    def remove_file(self, name: str) -> None:
        """Removes a file, if it exists."""

    def remove_folder(self, name: str) -> None:
        """Removes a subfolder with everything in it, if it exists."""


def absolute_location(location: str) -> str:
    """Returns the location as an absolute local path or as a URI of another scheme than `file`.

    A path without a scheme is a local path; a relative one begins at the working directory of this process, so call it
    on the driver.
    """
    scheme = _SCHEME.match(location)
    if scheme is None:
        return os.path.abspath(location)
    is_local = _FILE.match(location)
    if is_local is not None:
        return os.path.abspath("/" + location[is_local.end() :].lstrip("/"))
    return location


def local_path_of_uri(uri: str) -> str:
    """Returns the path in a `file:` URI whose path is percent-encoded."""
    return absolute_location(unquote(uri))


def folder_and_name(location: str) -> tuple[str, str]:
    """Splits the location of a file into that of its folder and its name. A query stays with the folder."""
    path, mark, query = location.partition("?") if _SCHEME.match(location) else (location, "", "")
    folder, _, name = path.rpartition("/")
    return f"{folder or '/'}{mark}{query}", name


def without_credentials(location: str) -> str:
    """Returns the location for messages: a URI may hold credentials of an object store."""
    return _SECRET_PARAMETER.sub(r"\1=…", _USER_AND_SECRET.sub("…", location))


def folder_at(location: str) -> Folder:
    """Returns the folder at a result of `absolute_location`; it need not exist. Raises `OSError`."""
    return _LocalFolder(Path(location)) if _SCHEME.match(location) is None else _RemoteFolder(location)


class _LocalFolder:
    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, name: str) -> bytes | None:
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def open_to_read(self, name: str) -> IO[bytes]:
        return (self._root / name).open("rb")

    def open_to_write(self, name: str) -> IO[bytes]:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb")

    def replace(self, name: str, content: bytes) -> None:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            unfinished.write_bytes(content)
            unfinished.replace(path)
        except OSError:
            # On a full disk, each attempt would leave a file.
            with suppress(OSError):
                unfinished.unlink()
            raise

    def names(self, name: str) -> list[str]:
        try:
            return sorted(os.listdir(self._root / name))
        except FileNotFoundError:
            return []

    def remove_file(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def remove_folder(self, name: str) -> None:
        # Another run of the query may remove the same files at the same time.
        while (self._root / name).exists():
            try:
                shutil.rmtree(self._root / name)
            except FileNotFoundError:
                continue


class _RemoteFolder:
    def __init__(self, uri: str) -> None:
        self._files, root = _opened(uri, os.getpid())
        self._root = root.rstrip("/")

    def read(self, name: str) -> bytes | None:
        try:
            with self.open_to_read(name) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def open_to_read(self, name: str) -> IO[bytes]:
        return cast("IO[bytes]", self._files.open_input_stream(self._path(name)))

    def open_to_write(self, name: str) -> IO[bytes]:
        self._files.create_dir(self._path(name).rpartition("/")[0], recursive=True)
        return cast("IO[bytes]", self._files.open_output_stream(self._path(name)))

    def replace(self, name: str, content: bytes) -> None:
        # An object store shows a file only when it is complete. In the others a file is renamed.
        unfinished = f"{name}.{uuid.uuid4().hex}.tmp"
        try:
            with self.open_to_write(unfinished) as file:
                file.write(content)
            self._files.move(self._path(unfinished), self._path(name))
        except OSError:
            with suppress(OSError):
                self.remove_file(unfinished)
            raise

    def names(self, name: str) -> list[str]:
        from pyarrow import fs

        found: list[Any] = self._files.get_file_info(fs.FileSelector(self._path(name), allow_not_found=True))
        return sorted(each.base_name for each in found)

    def remove_file(self, name: str) -> None:
        if self._exists(name):
            self._files.delete_file(self._path(name))

    def remove_folder(self, name: str) -> None:
        if self._exists(name):
            self._files.delete_dir(self._path(name))

    def _exists(self, name: str) -> bool:
        from pyarrow import fs

        info: fs.FileInfo = self._files.get_file_info(self._path(name))
        return bool(info.type != fs.FileType.NotFound)

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


@lru_cache(maxsize=16)
def _opened(uri: str, process_id: int) -> tuple[fs.FileSystem, str]:
    """Opens a file system; returns it with the folder's path in it. Raises `OSError`.

    A process opens equal locations once: each opening may look up the bucket's region, or connect. A forked child must
    not use the connections of its parent, so the process id is a part of the key.
    """
    import pyarrow as pa
    from pyarrow import fs

    scheme = _SCHEME.match(uri)
    assert scheme is not None
    known = "s3:" + uri[scheme.end() :] if scheme[0].lower() in _SCHEMES_OF_S3 else uri
    parts = _REMOTE.fullmatch(known)
    if parts is not None:
        known = f"{parts['place']}{quote(parts['path'])}{parts['query']}"
    try:
        files, root = fs.FileSystem.from_uri(known)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = str(error).replace(known, without_credentials(known))
        raise OSError(f"pyarrow.fs can't open {without_credentials(uri)}: {reason}") from None
    return files, root

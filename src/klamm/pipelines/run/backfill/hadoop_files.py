"""Files of a sink, through the file systems that Spark itself writes with."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

__all__ = ["HadoopFiles", "StoredFile"]

_HIDDEN: Final = ("_", ".")


class StoredFile(NamedTuple):
    """A file below the folder."""

    name: str
    """Relative to the folder, with slashes, as it is on the disk."""
    uri: str
    """As Spark's file sink lists it: percent-encoded."""
    size: int
    modified_ms: int
    replication: int
    block_bytes: int


class HadoopFiles:
    """A folder in a file system of Hadoop's. Names are relative to it. The methods raise py4j's errors."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Takes the folder as the sink is given it: a path or a URI."""
        assert spark._jvm is not None
        self._jvm: Final[Any] = spark._jvm
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()
        path: Any = self._jvm.org.apache.hadoop.fs.Path(folder)
        self._fs: Any = path.getFileSystem(self._conf)
        self._root: Any = self._fs.makeQualified(path)
        self.uri: Final = str(self._root.toUri().toString()).rstrip("/")
        """The folder, percent-encoded."""

    def is_empty(self) -> bool:
        """Returns whether the folder does not exist, or has nothing in it."""
        return not self._fs.exists(self._root) or not list(self._fs.listStatus(self._root))

    def exists(self, name: str) -> bool:
        """Returns whether a file or folder exists."""
        return bool(self._fs.exists(self._path(name)))

    def path(self, name: str) -> str:
        """Returns a name as a path that Spark's readers and writers take."""
        return str(self._path(name).toString())

    def names(self, name: str) -> list[str]:
        """Returns the names in a subfolder; none if it does not exist."""
        path = self._path(name)
        return sorted(str(each.getPath().getName()) for each in self._fs.listStatus(path)) if self.exists(name) else []

    def data_files(self, name: str) -> Iterator[StoredFile]:
        """Yields the files in a subfolder and its subfolders, without those that Spark's readers ignore."""
        for status in self._fs.listStatus(self._path(name)):
            own = str(status.getPath().getName())
            if own.startswith(_HIDDEN) and "=" not in own:
                continue
            if status.isDirectory():
                yield from self.data_files(f"{name}/{own}")
            else:
                yield self._stored(f"{name}/{own}", status)

    def stored(self, name: str) -> StoredFile:
        """Returns a file as it is now."""
        return self._stored(name, self._fs.getFileStatus(self._path(name)))

    def read(self, name: str) -> str:
        """Returns a small text file."""
        stream = self._fs.open(self._path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def replace(self, name: str, content: str) -> None:
        """Replaces a text file. A reader sees the old content or the new one."""
        target = self._path(name)
        unfinished = self._jvm.org.apache.hadoop.fs.Path(target.getParent(), f".{uuid.uuid4().hex}.tmp")
        stream = self._fs.create(unfinished)
        try:
            stream.write(bytearray(content.encode()))
        finally:
            stream.close()
        options = self._jvm.org.apache.hadoop.fs.Options
        overwrite = self._jvm.java.lang.reflect.Array.newInstance(options.Rename.OVERWRITE.getDeclaringClass(), 1)
        overwrite[0] = options.Rename.OVERWRITE
        self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._root.toUri(), self._conf).rename(
            unfinished, target, overwrite
        )

    def move(self, name: str, to: str) -> None:
        """Moves a file; creates the folders above its new place."""
        target = self._path(to)
        self._fs.mkdirs(target.getParent())
        if not self._fs.rename(self._path(name), target):
            raise OSError(f"{self.path(name)} can't be moved to {self.path(to)}")

    def remove(self, name: str) -> None:
        """Removes a file, or a folder with everything in it, if it exists."""
        self._fs.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        # A name is no URI: a colon in it names no scheme.
        return (
            self._jvm.org.apache.hadoop.fs.Path(f"{self._root.toString().rstrip('/')}/{name}") if name else self._root
        )

    def _stored(self, name: str, status: Any) -> StoredFile:
        return StoredFile(
            name,
            str(status.getPath().toUri().toString()),
            int(status.getLen()),
            int(status.getModificationTime()),
            int(status.getReplication()),
            int(status.getBlockSize()),
        )

"""The list of files that Spark's file sink keeps in the folder `_spark_metadata`, and how files in it are replaced.

Readers of Spark take the files of this list, and no others: they would miss files that a batch writes into the folder,
and fail for files that a batch removes. The list has a file `N` for each micro-batch, a version and a line of JSON for
each data file, and from time to time a file `N.compact` with everything up to it (Spark: `FileStreamSinkLog.scala`,
`CompactibleFileStreamLog.scala`). The names of these files tell the sink which micro-batches it has, so a replacement
changes their content only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final
from urllib.parse import unquote

from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.backfill.hadoop_files import HadoopFiles, StoredFile

__all__ = ["listed_files", "newest_micro_batch", "replace_listed", "without_entries"]

_LOG: Final = "_spark_metadata"
_VERSION: Final = "v1"
_COMPACT: Final = ".compact"
_NAME: Final = re.compile(r"(\d+)(\.compact)?")
_LOCAL: Final = re.compile(r"^file:/+")


def listed_files(files: HadoopFiles) -> list[str]:
    """Returns the files that readers see, relative to the sink's folder. Raises `PipelineError`."""
    root = f"{_plain(files.uri)}/"
    found = []
    for name in _present_names(files):
        for line in _lines(name, files.read(f"{_LOG}/{name}")):
            path = _plain(json.loads(line)["path"])
            if not path.startswith(root):
                raise PipelineError(
                    f"the list of files in {files.uri}/{_LOG} names {path}, which is in another folder: was it moved?"
                )
            found.append(path.removeprefix(root))
    return found


def newest_micro_batch(files: HadoopFiles) -> int | None:
    """Returns the number of the newest micro-batch in the list; None without a list."""
    found = (_NAME.fullmatch(name) for name in files.names(_LOG))
    return max((int(match[1]) for match in found if match), default=None)


def replace_listed(files: HadoopFiles, removed: Collection[str], added: Sequence[StoredFile]) -> None:
    """Takes files out of the list, and adds others. Does nothing where that is done already. Raises `PipelineError`.

    Both sides are relative to the sink's folder. A reader that starts between two steps may see files of both sides.
    """
    names = _present_names(files)
    if not names:
        raise PipelineError(f"{files.uri} has no {_LOG}: no run of the flow has written there")
    root = _plain(files.uri)
    gone = {f"{root}/{each}" for each in removed}
    known = set(listed_files(files))
    new = [_entry(each) for each in added if each.name not in known]
    # The newest first, which gets the new files: a reader sees too much for a moment, rather than too little.
    for name in reversed(names):
        before = files.read(f"{_LOG}/{name}")
        after = without_entries(name, before, gone)
        after, new = "\n".join([after, *new]), []
        if after != before:
            files.replace(f"{_LOG}/{name}", after)


def without_entries(name: str, content: str, gone: Collection[str]) -> str:
    """Returns the content of a file of the list without some data files, given as plain paths."""
    kept = [line for line in _lines(name, content) if _plain(json.loads(line)["path"]) not in gone]
    return "\n".join([_VERSION, *kept])


def _present_names(files: HadoopFiles) -> list[str]:
    """Returns the newest file that sums up those before it, and the files after it, in their order."""
    found = sorted((int(match[1]), name) for name in files.names(_LOG) if (match := _NAME.fullmatch(name)))
    begin = max((batch for batch, name in found if name.endswith(_COMPACT)), default=-1)
    return [name for batch, name in found if batch > begin or name == f"{begin}{_COMPACT}"]


def _lines(name: str, content: str) -> Iterator[str]:
    version, *lines = content.split("\n")
    if version != _VERSION:
        raise PipelineError(f"{_LOG}/{name} begins with {version!r}; klamm knows only {_VERSION}")
    return (line for line in lines if line)


def _plain(uri: str) -> str:
    """Returns a URI of the list as a path; local ones without their scheme, which has one slash or three."""
    return _LOCAL.sub("/", unquote(uri))


def _entry(file: StoredFile) -> str:
    fields = {
        "path": _LOCAL.sub("file:///", file.uri),
        "size": file.size,
        "isDir": False,
        "modificationTime": file.modified_ms,
        "blockReplication": file.replication,
        "blockSize": file.block_bytes,
        "action": "add",
    }
    return json.dumps(fields, separators=(",", ":"))

"""What Spark has written into a query's checkpoint: whether a micro-batch is finished.

Spark's `HDFSMetadataLog`: `offsets/N` is written before micro-batch N runs, and holds the end of each source in a line
of its own; `commits/N` when it is finished.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from klamm.protocol.types import Offset, TopicPartition
from klamm.spark.source.offsets import offsets_to_json

__all__ = ["is_last_finished"]


def is_last_finished(location: str, end: Mapping[TopicPartition, Offset]) -> bool:
    """Whether the newest finished micro-batch of the checkpoint is the one that ends here.

    `location` is a path or a URI that pyarrow has a file system for. Raises `OSError` and pyarrow's errors.
    """
    files, path = _open(location)
    finished = _newest(files, f"{path}/commits")
    if finished is None:
        return False
    with files.open_input_stream(f"{path}/offsets/{finished}") as stream:
        lines = stream.read().decode().splitlines()
    return any(_parsed(line) == offsets_to_json(end) for line in lines)


def _open(location: str) -> tuple[fs.FileSystem, str]:
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return fs.LocalFileSystem(), (unquote(parts.path) if parts.scheme else location).rstrip("/")
    files, path = fs.FileSystem.from_uri(location)
    return files, path.rstrip("/")


def _newest(files: fs.FileSystem, folder: str) -> int | None:
    found = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return max((int(each.base_name) for each in found if each.base_name.isdecimal()), default=None)


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None

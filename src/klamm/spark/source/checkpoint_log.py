"""What Spark has written into a query's checkpoint: whether a micro-batch is finished.

Spark's `HDFSMetadataLog`: `offsets/N` is written before micro-batch N runs, and holds the end of each source in a line
of its own; `commits/N` when it is finished. Only then comes `offsets/N+1`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from klamm.protocol.types import Offset, TopicPartition
from klamm.spark.source.offsets import offsets_to_json

__all__ = ["is_last_finished", "open_location"]


def is_last_finished(location: str, end: Mapping[TopicPartition, Offset]) -> bool:
    """Whether the micro-batch that was planned last for a source, and ends here for it, is finished.

    Nobody tells the source which line is its own, and the lines of several may be equal: a micro-batch that is under
    way may bring one source to where another was before. But Spark writes into the offset log before it asks for a
    plan. So the micro-batch is the newest entry; or, if that one ends elsewhere, Spark has begun another since, and the
    micro-batch is the entry before. If it came before one that leaves the source where it is, this may be False
    although the micro-batch is finished, never True when it is not.

    `location` is a path or a URI that pyarrow has a file system for. Raises `OSError` and pyarrow's errors.
    """
    files, path = open_location(location)
    wanted = offsets_to_json(end)
    for batch in _newest_two(files, f"{path}/offsets"):
        with files.open_input_stream(f"{path}/offsets/{batch}") as stream:
            lines = stream.read().decode().splitlines()
        if any(_parsed(line) == wanted for line in lines):
            return bool(files.get_file_info(f"{path}/commits/{batch}").is_file)
    return False


def open_location(location: str) -> tuple[fs.FileSystem, str]:
    """The file system that a path or a URI is in, and the path there. Raises what pyarrow raises."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return fs.LocalFileSystem(), (unquote(parts.path) if parts.scheme else location).rstrip("/")
    files, path = fs.FileSystem.from_uri(location)
    return files, path.rstrip("/")


def _newest_two(files: fs.FileSystem, folder: str) -> list[int]:
    found = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return sorted((int(each.base_name) for each in found if each.base_name.isdecimal()), reverse=True)[:2]


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None

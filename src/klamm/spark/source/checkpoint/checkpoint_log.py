"""Reads from a query's checkpoint whether a micro-batch is finished.

Spark's `HDFSMetadataLog` writes `offsets/N` before micro-batch N runs, with the end of each source in a line of its
own, and `commits/N` when it is finished. Only then it writes `offsets/N+1`.
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
    """Returns whether the last planned micro-batch of a source, which ends at `end`, is finished.

    The source does not know which line is its own, and several lines may be equal: a running micro-batch may bring one
    source to the position that another had before. But Spark writes the offset log before it asks for a plan. So the
    micro-batch is the newest entry. If that entry has another end, Spark has begun the next micro-batch, and the entry
    before is the right one. If the next micro-batch does not move the source, the result may be False for a finished
    micro-batch. It is never True for an unfinished one.

    `location` is a path or a URI with a file system of pyarrow. Raises `OSError` and pyarrow's errors.
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
    """Returns the file system of a path or a URI, and the path in it. Raises what pyarrow raises."""
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

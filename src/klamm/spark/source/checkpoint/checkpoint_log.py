"""Reads from a query's checkpoint whether a micro-batch is finished.

Spark's `HDFSMetadataLog` writes `offsets/N` before micro-batch N runs, with the end of each source in a line of its
own, and `commits/N` when it is finished. Only then it writes `offsets/N+1`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from klamm.protocol.types import Offset, TopicPartition
from klamm.spark.folders import Folder, absolute_location, folder_at
from klamm.spark.source.offsets import offsets_to_json

__all__ = ["is_last_finished"]


def is_last_finished(location: str, end: Mapping[TopicPartition, Offset]) -> bool:
    """Returns whether the last planned micro-batch of a source, which ends at `end`, is finished.

    The source does not know which line is its own, and several lines may be equal: a running micro-batch may bring one
    source to the position that another had before. But Spark writes the offset log before it asks for a plan. So the
    micro-batch is the newest entry. If that entry has another end, Spark has begun the next micro-batch, and the entry
    before is the right one. If the next micro-batch does not move the source, the result may be False for a finished
    micro-batch. It is never True for an unfinished one.

    `location` is a path or a URI, as in Hadoop. Raises `OSError`.
    """
    folder = folder_at(absolute_location(location))
    wanted = offsets_to_json(end)
    for batch in _newest_two(folder):
        lines = (folder.read(f"offsets/{batch}") or b"").decode().splitlines()
        if any(_parsed(line) == wanted for line in lines):
            return folder.read(f"commits/{batch}") is not None
    return False


def _newest_two(folder: Folder) -> list[int]:
    return sorted((int(name) for name in folder.names("offsets") if name.isdecimal()), reverse=True)[:2]


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None

"""Reads offsets from the files of a query's checkpoint, on any file system of `klamm.spark.folders`.

Spark writes `offsets/N` before micro-batch N runs: a version, its own metadata as JSON, and one line for each source.
It writes `commits/N` when the micro-batch is finished.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from klamm.spark.folders import Folder
from klamm.spark.source.errors import OptionError
from klamm.spark.source.offsets import PartitionOffsets, offsets_from_json

__all__ = ["lowest_offsets", "newest_batch", "offsets_in_line", "planned_end"]

_HEADER_LINES = 2


def newest_batch(folder: Folder, name: str) -> int | None:
    """Returns the number of the newest file in `offsets` or `commits`; None without a file. Raises `OSError`."""
    # Spark may keep a log in compacted files, named N.compact.
    numbers = [text.removesuffix(".compact") for text in folder.names(name)]
    return max((int(number) for number in numbers if number.isdecimal()), default=None)


def planned_end(folder: Folder, batch_id: int) -> PartitionOffsets:
    """Returns the end of a planned micro-batch: the lowest one if several sources read a partition.

    Raises `OSError`.
    """
    content = folder.read(f"offsets/{batch_id}")
    lines = [] if content is None else content.decode(errors="replace").splitlines()[_HEADER_LINES:]
    return lowest_offsets(offsets_in_line(line) for line in lines)


def lowest_offsets(sources: Iterable[PartitionOffsets]) -> PartitionOffsets:
    """Returns the lowest offset of each partition."""
    lowest: PartitionOffsets = {}
    for offsets in sources:
        for key, offset in offsets.items():
            lowest[key] = min(offset, lowest.get(key, offset))
    return lowest


def offsets_in_line(line: str) -> PartitionOffsets:
    """Returns the offsets of one source; nothing for a source of another kind."""
    try:
        return offsets_from_json(json.loads(line))
    except (ValueError, OptionError):
        return {}

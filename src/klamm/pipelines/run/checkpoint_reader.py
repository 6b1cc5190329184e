"""Reads from a query's checkpoint which micro-batches are planned and finished, and the offsets where they end.

Spark writes `offsets/N` before micro-batch N runs: a version, its own metadata as JSON, and one line for each source.
It writes `commits/N` when the micro-batch is finished.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from klamm.protocol.types import Offset, TopicPartition
from klamm.spark.folders import Folder, absolute_location, folder_at
from klamm.spark.source.errors import OptionError
from klamm.spark.source.offsets import PartitionOffsets, offsets_from_json

__all__ = ["CheckpointState", "PlannedBatch", "end_of_finished", "is_settled", "read_state", "unfinished_batch"]

_HEADER_LINES = 2


class CheckpointState(NamedTuple):
    """The newest micro-batches of a checkpoint; None where there is none."""

    planned: int | None
    finished: int | None


class PlannedBatch(NamedTuple):
    """A micro-batch that Spark has planned: for each partition, the first offset and the offset after the last."""

    batch_id: int
    ranges: Mapping[TopicPartition, tuple[Offset, Offset]]


def read_state(location: str) -> CheckpointState:
    """Returns the newest micro-batches. Raises `OSError`."""
    folder = folder_at(absolute_location(location))
    return CheckpointState(_newest(folder, "offsets"), _newest(folder, "commits"))


def is_settled(location: str) -> bool:
    """Returns whether every planned micro-batch is finished. Raises `OSError`."""
    state = read_state(location)
    return state.planned == state.finished


def end_of_finished(location: str) -> PartitionOffsets:
    """Returns the position after the last finished micro-batch; nothing without one.

    If several sources read a partition, returns the lowest position. Raises `OSError`.
    """
    folder = folder_at(absolute_location(location))
    finished = _newest(folder, "commits")
    return {} if finished is None else _ends(folder, finished)


def unfinished_batch(location: str) -> PlannedBatch | None:
    """Returns the micro-batch that is planned and not finished; None if there is none.

    Leaves out partitions in which it reads nothing. Raises `OSError`.
    """
    folder = folder_at(absolute_location(location))
    planned, finished = _newest(folder, "offsets"), _newest(folder, "commits")
    if planned is None or planned == finished:
        return None
    ends = _ends(folder, planned)
    starts = _initial_offsets(folder) if planned == 0 else _ends(folder, planned - 1)
    ranges = {key: (starts.get(key, Offset(0)), end) for key, end in sorted(ends.items())}
    return PlannedBatch(planned, {key: (start, end) for key, (start, end) in ranges.items() if start < end})


def _newest(folder: Folder, name: str) -> int | None:
    # Spark may keep a log in compacted files, named N.compact.
    numbers = [text.removesuffix(".compact") for text in folder.names(name)]
    return max((int(number) for number in numbers if number.isdecimal()), default=None)


def _ends(folder: Folder, batch_id: int) -> PartitionOffsets:
    content = folder.read(f"offsets/{batch_id}")
    lines = [] if content is None else content.decode(errors="replace").splitlines()[_HEADER_LINES:]
    return _merged(_parsed(line) for line in lines)


def _initial_offsets(folder: Folder) -> PartitionOffsets:
    """Returns the start of each source, from the file that the source writes, as Spark's own source does."""
    contents = (folder.read(f"sources/{number}/0") for number in folder.names("sources") if number.isdecimal())
    return _merged(_parsed(content.decode(errors="replace").splitlines()[-1]) for content in contents if content)


def _merged(sources: Iterator[PartitionOffsets]) -> PartitionOffsets:
    merged: PartitionOffsets = {}
    for offsets in sources:
        for key, offset in offsets.items():
            merged[key] = min(offset, merged.get(key, offset))
    return merged


def _parsed(line: str) -> PartitionOffsets:
    """Returns the offsets of one source; nothing for a source of another kind."""
    try:
        return offsets_from_json(json.loads(line))
    except (ValueError, OptionError):
        return {}

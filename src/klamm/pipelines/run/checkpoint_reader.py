"""Reads from a query's checkpoint which micro-batches are planned and finished, and the offsets where they end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from klamm.protocol.types import Offset, TopicPartition
from klamm.spark.folders import Folder, absolute_location, folder_at
from klamm.spark.source.checkpoint.finished_offsets import lowest_offsets, newest_batch, offsets_in_line, planned_end
from klamm.spark.source.offsets import PartitionOffsets

__all__ = ["CheckpointState", "PlannedBatch", "end_of_finished", "is_settled", "read_state", "unfinished_batch"]


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
    return CheckpointState(newest_batch(folder, "offsets"), newest_batch(folder, "commits"))


def is_settled(location: str) -> bool:
    """Returns whether every planned micro-batch is finished. Raises `OSError`."""
    state = read_state(location)
    return state.planned == state.finished


def end_of_finished(location: str) -> PartitionOffsets:
    """Returns the position after the last finished micro-batch; nothing without one.

    If several sources read a partition, returns the lowest position. Raises `OSError`.
    """
    folder = folder_at(absolute_location(location))
    finished = newest_batch(folder, "commits")
    return {} if finished is None else planned_end(folder, finished)


def unfinished_batch(location: str) -> PlannedBatch | None:
    """Returns the micro-batch that is planned and not finished; None if there is none.

    Leaves out partitions in which it reads nothing. Raises `OSError`.
    """
    folder = folder_at(absolute_location(location))
    planned, finished = newest_batch(folder, "offsets"), newest_batch(folder, "commits")
    if planned is None or planned == finished:
        return None
    ends = planned_end(folder, planned)
    starts = _initial_offsets(folder) if planned == 0 else planned_end(folder, planned - 1)
    ranges = {key: (starts.get(key, Offset(0)), end) for key, end in sorted(ends.items())}
    return PlannedBatch(planned, {key: (start, end) for key, (start, end) in ranges.items() if start < end})


def _initial_offsets(folder: Folder) -> PartitionOffsets:
    """Returns the start of each source, from the file that the source writes, as Spark's own source does."""
    contents = (folder.read(f"sources/{number}/0") for number in folder.names("sources") if number.isdecimal())
    return lowest_offsets(
        offsets_in_line(content.decode(errors="replace").splitlines()[-1]) for content in contents if content
    )

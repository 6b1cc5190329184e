"""The range of a backfill: two borders, resolved once to offsets of each partition."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from klamm.client.cluster import Cluster
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.source_options import source_options
from klamm.protocol.types import Millis, Offset, TopicPartition
from klamm.spark.source.offsets import EARLIEST_OFFSET, LATEST_OFFSET, PartitionOffsets, offsets_to_json
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.planning.log_offsets import SubscribedOffsets, planner_for

__all__ = ["EARLIEST", "LATEST", "Border", "SourceRange", "batch_options", "log_borders", "resolve_range"]

# Options of streams, which a batch read refuses or warns of.
_OF_STREAMS: Final = (
    "klamm.group.",
    "kafka.session.timeout.ms",
    "kafka.heartbeat.interval.ms",
    "maxtriggerdelay",
    "minoffsetspertrigger",
)


@dataclass(frozen=True, slots=True)
class Border:
    """A border of the range. At most one field is set; with none it is the end of the log."""

    is_start: bool = False
    """The start of the log."""
    offset: Offset | None = None
    """The same offset in every partition, within its log; a negative one counts from the end."""
    timestamp_ms: Millis | None = None
    """The first record of each partition at this time or later; the end of a partition without one."""
    offsets: Mapping[TopicPartition, Offset] | None = None
    """An offset for every partition; -1 is the end, -2 the start."""


EARLIEST: Final = Border(is_start=True)
LATEST: Final = Border()


class SourceRange(NamedTuple):
    """The range of one source: for each partition the first offset, and the offset after the last."""

    starts: PartitionOffsets
    ends: PartitionOffsets

    @property
    def size(self) -> int:
        """The number of offsets."""
        return sum(end - self.starts[key] for key, end in self.ends.items())

    def as_json(self) -> dict[str, Any]:
        """Returns the range for a file; `SourceRange.from_json` inverts it."""
        return {"starts": offsets_to_json(self.starts), "ends": offsets_to_json(self.ends)}


def resolve_range(place: Place, flow: Flow, parameter: str, begin: Border, end: Border) -> SourceRange:
    """Returns the range of one source between two borders, as the log is now.

    Raises `PipelineError` for borders in the wrong order or outside of the log, and what the cluster raises.
    """
    if begin.timestamp_ms is not None and end.timestamp_ms is not None and begin.timestamp_ms >= end.timestamp_ms:
        raise PipelineError("--from is not before --to")
    options = SourceOptions.for_stream(source_options(place, flow, parameter, starting_offsets=None))
    with closing(Cluster(options.client)) as cluster:
        log = SubscribedOffsets(cluster, options.subscription)
        latest = planner_for(log, options).existing()
        if not latest:
            raise PipelineError(f"flow {flow.name}: no topic matches {flow.sources[parameter]}")
        earliest = log.earliest(latest)
        starts = _offsets_at("--from", begin, log, earliest, latest)
        ends = _offsets_at("--to", end, log, earliest, latest)
    found = SourceRange(starts, {key: max(starts[key], offset) for key, offset in ends.items()})
    if not found.size and (reversed_ := sorted(key for key in ends if starts[key] > ends[key])):
        key = reversed_[0]
        raise PipelineError(
            f"--from is after --to: in {key.topic}-{key.partition} they are the offsets {starts[key]} and {ends[key]}"
        )
    return found


def log_borders(place: Place, flow: Flow, parameter: str) -> SourceRange:
    """Returns the start and the end of each partition's log. Raises what the cluster raises."""
    return resolve_range(place, flow, parameter, EARLIEST, LATEST)


def batch_options(place: Place, flow: Flow, parameter: str, chosen: SourceRange) -> dict[str, str]:
    """Returns the options of a batch read of exactly these offsets. It has no group.

    The partitions are assigned by number: those that are added later do not belong to the range.
    """
    source = flow.sources[parameter]
    topics: dict[str, list[int]] = {}
    for key in sorted(chosen.ends):
        topics.setdefault(key.topic, []).append(key.partition)
    own = {key: value for key, value in source.options.items() if not key.lower().startswith(_OF_STREAMS)}
    return {
        **place.kafka_options,
        **own,
        "assign": json.dumps(topics),
        "startingOffsets": json.dumps(offsets_to_json(chosen.starts)),
        "endingOffsets": json.dumps(offsets_to_json(chosen.ends)),
        "includeHeaders": "true" if source.headers else "false",
    }


def _offsets_at(
    option: str, border: Border, log: SubscribedOffsets, earliest: PartitionOffsets, latest: PartitionOffsets
) -> PartitionOffsets:
    if border.is_start:
        return earliest
    if border.offset is not None:
        number = border.offset
        return {
            key: min(max(earliest[key], Offset(number if number >= 0 else end + number)), end)
            for key, end in latest.items()
        }
    if border.timestamp_ms is not None:
        found = log.at(dict.fromkeys(latest, border.timestamp_ms))
        return {key: min(found[key], end) if found.get(key, -1) >= 0 else end for key, end in latest.items()}
    if border.offsets is not None:
        return dict(_given_offsets(option, border.offsets, earliest, latest))
    return latest


def _given_offsets(
    option: str, given: Mapping[TopicPartition, Offset], earliest: PartitionOffsets, latest: PartitionOffsets
) -> Iterator[tuple[TopicPartition, Offset]]:
    for key, end in sorted(latest.items()):
        name = f"{key.topic}-{key.partition}"
        offset = given.get(key)
        if offset is None:
            raise PipelineError(f"{option} has no offset for {name}; -2 is the start of a partition, -1 its end")
        if offset == EARLIEST_OFFSET:
            offset = earliest[key]
        elif offset == LATEST_OFFSET:
            offset = end
        if not earliest[key] <= offset <= end:
            raise PipelineError(f"{option}: {name} has no offset {offset}; its log is from {earliest[key]} to {end}")
        yield key, offset

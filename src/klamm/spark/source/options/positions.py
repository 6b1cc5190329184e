"""The start and end of a read: the options with offsets and timestamps.

The first option that is set takes precedence: `startingTimestamp`, `startingOffsetsByTimestamp`, `startingOffsets`. The
same order applies to the end. Like `getKafkaOffsetRangeLimit` of Spark's `KafkaSourceProvider`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from klamm.protocol.types import Millis, TopicPartition
from klamm.spark.source.errors import OptionError
from klamm.spark.source.offsets import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    PartitionOffsets,
    parse_offsets,
    parse_timestamps,
)
from klamm.spark.source.options.option_values import parse_timestamp_ms, parse_word

__all__ = ["AtTimestamp", "AtTimestamps", "OffsetLimit", "check_batch_limits", "ending_limit", "starting_limit"]

_STRATEGY: Final = "startingOffsetsByTimestampStrategy"


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """In every partition, the first record at this time or later."""

    timestamp_ms: Millis
    latest_if_none: bool
    """Whether a partition without such a record uses `latest`; it is an error otherwise."""


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """In each partition, the first record at the partition's own time or later."""

    timestamps_ms: Mapping[TopicPartition, Millis]
    latest_if_none: bool


OffsetLimit = Literal["earliest", "latest", "committed"] | PartitionOffsets | AtTimestamp | AtTimestamps
"""A start or an end: a word for all partitions, an offset for each (-1 latest, -2 earliest), or times. `committed`,
only for a start, means the group's committed offsets."""


def starting_limit(given: Mapping[str, str], default: OffsetLimit) -> OffsetLimit:
    """Parses the start of a query from its options, whose keys are in lower case. Raises `OptionError`."""
    strategy = parse_word(_STRATEGY, given.get(_STRATEGY.lower(), "error"), "error", "latest")
    return _limit("starting", given, default, latest_if_none=strategy == "latest")


def ending_limit(given: Mapping[str, str]) -> OffsetLimit:
    """Parses the end of a batch read. A partition without a record at the time or later is read to its end."""
    return _limit("ending", given, "latest", latest_if_none=True)


def _limit(side: str, given: Mapping[str, str], default: OffsetLimit, *, latest_if_none: bool) -> OffsetLimit:
    one_time, times, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if one_time.lower() in given:
        return AtTimestamp(parse_timestamp_ms(one_time, given[one_time.lower()]), latest_if_none)
    if times.lower() in given:
        return AtTimestamps(parse_timestamps(times, given[times.lower()]), latest_if_none)
    text = given.get(offsets.lower())
    return default if text is None else _offsets(offsets, text.strip())


def _offsets(option: str, text: str) -> OffsetLimit:
    match text.lower():
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
        case "committed" if option == "startingOffsets":
            return "committed"
        case _:
            return parse_offsets(option, text)


def check_batch_limits(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """Refuses invalid limits of a batch read: a start at the end, an end at the start, or limits that do not match.

    The rules and the texts are those of `validateBatchOptions` and `checkOffsetLimitValidity` in Spark. Raises
    `OptionError`.
    """
    if starting == "latest":
        raise OptionError("startingOffsets: starting offset can't be latest for batch queries on Kafka")
    if ending == "earliest":
        raise OptionError("endingOffsets: ending offset can't be earliest for batch queries on Kafka")
    if isinstance(starting, dict) and (at_end := _first_at(starting, LATEST_OFFSET)):
        raise OptionError(f"startingOffsets for {at_end} can't be latest for batch queries on Kafka")
    if isinstance(ending, dict) and (at_start := _first_at(ending, EARLIEST_OFFSET)):
        raise OptionError(f"endingOffsets: ending offset for {at_start} can't be earliest for batch queries on Kafka")
    if isinstance(starting, dict) and isinstance(ending, dict):
        _check_order("offset", starting, ending)
    elif isinstance(starting, AtTimestamps) and isinstance(ending, AtTimestamps):
        _check_order("timestamp", starting.timestamps_ms, ending.timestamps_ms)


def _first_at(offsets: PartitionOffsets, special: int) -> TopicPartition | None:
    return next((topic_partition for topic_partition, offset in offsets.items() if offset == special), None)


def _check_order(kind: str, starting: Mapping[TopicPartition, int], ending: Mapping[TopicPartition, int]) -> None:
    if starting.keys() != ending.keys():
        raise OptionError(
            "The specified start offset and end offset should have the same topic-partitions. "
            f"Topic-partitions for start offset: {_listed(starting)}, "
            f"topic-partitions for end offset: {_listed(ending)}."
        )
    for topic_partition, start in starting.items():
        end = ending[topic_partition]
        if start > end >= 0:
            raise OptionError(
                f"The specified start {kind} {start} is greater than the end {kind} {end} "
                f"for topic {topic_partition.topic} partition {topic_partition.partition}."
            )


def _listed(topic_partitions: Mapping[TopicPartition, int]) -> str:
    return ", ".join(map(str, sorted(topic_partitions)))

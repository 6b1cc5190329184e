"""Offsets of partitions in Spark's form, and the arithmetic of a micro-batch. No I/O.

The text form is that of Spark's own Kafka source, `{"topic":{"0":23,"1":345}}`, so that each source can read the
other's checkpoints. Topics are in alphabetical order and partitions in numerical order: Spark compares offsets as text,
and another order would cause an empty micro-batch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId, TopicPartition
from klamm.spark.source.errors import OptionError

__all__ = [
    "EARLIEST_OFFSET",
    "LATEST_OFFSET",
    "OffsetRange",
    "PartitionOffsets",
    "limit_rows",
    "offsets_from_json",
    "offsets_to_json",
    "parse_assignment",
    "parse_offsets",
    "parse_timestamps",
]

PartitionOffsets = dict[TopicPartition, Offset]

LATEST_OFFSET: Final = Offset(-1)
"""In an option's JSON: the end of the log."""
EARLIEST_OFFSET: Final = Offset(-2)
"""In an option's JSON: the start of the log."""

_MAXIMUM_OFFSET: Final = 2**63 - 1
_UNKNOWN_EPOCH: Final = LeaderEpoch(-1)


class OffsetRange(NamedTuple):
    """The offsets [start, end) of one partition, which one task reads."""

    topic_partition: TopicPartition
    start: Offset
    end: Offset
    topic_id: TopicId | None = None
    """The id of the planned topic; a topic recreated with the same name has another id. None if the topic has no id."""
    leader_epoch: LeaderEpoch = _UNKNOWN_EPOCH
    """The newest leader epoch of the partition that the planner knew; an older leader may not have all offsets."""


def offsets_to_json(offsets: Mapping[TopicPartition, Offset]) -> dict[str, dict[str, int]]:
    """Returns the offsets as Spark stores them, in a fixed order."""
    topics: dict[str, dict[str, int]] = {}
    for topic_partition in sorted(offsets):
        topics.setdefault(topic_partition.topic, {})[str(topic_partition.partition)] = offsets[topic_partition]
    return topics


def offsets_from_json(stored: object) -> PartitionOffsets:
    """Inverts `offsets_to_json`, for offsets from a checkpoint.

    Raises `OptionError` for the offsets of another kind of source.
    """
    error = f"checkpointLocation: what is in the checkpoint are no offsets of a Kafka source: {stored}"
    if not isinstance(stored, dict):
        raise OptionError(error)
    return {topic_partition: Offset(offset) for topic_partition, offset in _numbers_in(stored, error)}


def parse_offsets(option: str, text: str) -> PartitionOffsets:
    """Parses the offsets in an option's JSON, -1 for latest and -2 for earliest. Raises `OptionError`."""
    example = f'{option}: Expected e.g. {{"topicA":{{"0":23,"1":-1}},"topicB":{{"0":-2}}}}, got {text}'
    offsets: PartitionOffsets = {}
    for topic_partition, offset in _parse_numbers(text, example):
        if not EARLIEST_OFFSET <= offset <= _MAXIMUM_OFFSET:
            raise OptionError(f"{option}: {offset} is no offset; -1 is latest, -2 is earliest")
        offsets[topic_partition] = Offset(offset)
    return offsets


def parse_timestamps(option: str, text: str) -> dict[TopicPartition, Millis]:
    """Parses the timestamps in an option's JSON, in milliseconds since 1970. Raises `OptionError`."""
    example = (
        f'{option}: Expected e.g. {{"topicA": {{"0": 123456789, "1": 123456789}}, '
        f'"topicB": {{"0": 123456789, "1": 123456789}}}}, got {text}'
    )
    timestamps = {}
    for topic_partition, timestamp_ms in _parse_numbers(text, example):
        if not 0 <= timestamp_ms <= _MAXIMUM_OFFSET:
            raise OptionError(f"{option}: {timestamp_ms} is no time in milliseconds since 1970")
        timestamps[topic_partition] = Millis(timestamp_ms)
    return timestamps


def _parse_numbers(text: str, example: str) -> Iterator[tuple[TopicPartition, int]]:
    return _numbers_in(_parse_object(text, example), example)


def _numbers_in(by_topic: Mapping[str, Any], error: str) -> Iterator[tuple[TopicPartition, int]]:
    for topic, partitions in by_topic.items():
        if not isinstance(partitions, dict):
            raise OptionError(error)
        for partition, number in partitions.items():
            if not partition.isdecimal() or isinstance(number, bool) or not isinstance(number, int):
                raise OptionError(error)
            yield TopicPartition(topic, PartitionIndex(int(partition))), number


def parse_assignment(text: str) -> tuple[TopicPartition, ...]:
    """Parses the partitions in the option `assign`, `{"topicA":[0,1],"topicB":[2,4]}`. Raises `OptionError`."""
    if not text.strip().startswith("{"):
        raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
    example = f'assign: Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}'
    assigned = set()
    for topic, partitions in _parse_object(text, example).items():
        if not isinstance(partitions, list):
            raise OptionError(example)
        for partition in partitions:
            if isinstance(partition, bool) or not isinstance(partition, int) or partition < 0:
                raise OptionError(example)
            assigned.add(TopicPartition(topic, PartitionIndex(partition)))
    if not assigned:
        raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
    return tuple(sorted(assigned))


def _parse_object(text: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        raise OptionError(example) from None
    if not isinstance(parsed, dict):
        raise OptionError(example)
    return parsed


def limit_rows(
    maximum: int, start: Mapping[TopicPartition, Offset], latest: Mapping[TopicPartition, Offset]
) -> PartitionOffsets:
    """Returns the end of a micro-batch of about `maximum` offsets, shared in proportion to each partition's offsets.

    Partitions that are not in `start` end where `latest` has them. A partition with few offsets gets at least one, so
    that it does not starve; so the sum can exceed the maximum. Like `rateLimit` of Spark's `KafkaMicroBatchStream`.
    """
    sizes = {
        topic_partition: end - start[topic_partition]
        for topic_partition, end in latest.items()
        if topic_partition in start and end > start[topic_partition]
    }
    total = sum(sizes.values())
    limited = dict(latest)
    for topic_partition, size in sizes.items():
        share = maximum * (size / total)
        count = math.ceil(share) if share < 1 else math.floor(share)
        limited[topic_partition] = Offset(min(latest[topic_partition], start[topic_partition] + count))
    return limited

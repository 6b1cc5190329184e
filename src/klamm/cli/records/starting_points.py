"""Where `klamm consume` begins without a group: the offset that --from selects in each partition."""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentTypeError
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

from klamm.cli.arguments import timestamp_ms
from klamm.cli.cluster_options import access_of, partitions_of
from klamm.insight.cluster_access import TIMEOUT_S
from klamm.insight.errors import ClusterError

__all__ = ["Start", "start", "starting_points"]


class Start(NamedTuple):
    """Where to begin. One of the fields is set."""

    name: str | None = None
    offset: int | None = None
    timestamp_ms: int | None = None


def start(text: str) -> Start:
    """Returns the parsed value of --from."""
    if text in ("earliest", "latest"):
        return Start(name=text)
    if re.fullmatch(r"-?\d+", text):
        return Start(offset=int(text))
    try:
        return Start(timestamp_ms=timestamp_ms(text))
    except ArgumentTypeError:
        raise ArgumentTypeError(
            f"takes earliest, latest, an offset, -N, or a time such as 2026-01-31T12:00:00, not {text!r}"
        ) from None


def starting_points(arguments: argparse.Namespace, consumer: Consumer) -> list[TopicPartition]:
    """Returns the first offset to read in each requested partition.

    Raises ClusterError for a topic or a partition that does not exist.
    """
    points: list[TopicPartition] = []
    for topic in arguments.topics:
        partitions = partitions_of(arguments, consumer, topic)
        missing = set(arguments.partition or ()).difference(partitions)
        if missing:
            raise ClusterError(f"topic {topic} has no partition {min(missing)}, only 0 to {len(partitions) - 1}")
        points += [
            _starting_point(arguments, consumer, TopicPartition(topic, partition))
            for partition in sorted(set(arguments.partition or partitions))
        ]
    return points


def _starting_point(arguments: argparse.Namespace, consumer: Consumer, place: TopicPartition) -> TopicPartition:
    where: Start = arguments.start or Start(name="earliest")
    offset = OFFSET_END if where.name == "latest" else OFFSET_BEGINNING
    if where.offset is not None:
        low, high = access_of(arguments).translate(lambda: consumer.get_watermark_offsets(place, timeout=TIMEOUT_S))
        offset = min(max(low, where.offset if where.offset >= 0 else high + where.offset), high)
    elif where.timestamp_ms is not None:
        moment = TopicPartition(place.topic, place.partition, where.timestamp_ms)
        found = access_of(arguments).translate(lambda: consumer.offsets_for_times([moment], timeout=TIMEOUT_S))[0]
        if found.error is not None:  # the end in its place would skip records
            raise access_of(arguments).cluster_error(found.error)
        offset = found.offset if found.offset >= 0 else OFFSET_END
    return TopicPartition(place.topic, place.partition, offset)

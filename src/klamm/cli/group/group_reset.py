"""What `klamm group reset` would change."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from klamm.cli.cluster_options import access_of, partitions_of
from klamm.insight.errors import ClusterError
from klamm.insight.group_offsets import end_offsets, list_offsets
from klamm.insight.words import PartitionKey

__all__ = ["ResetPlan", "plan_reset"]


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """What a reset changes: for each partition the offset before (None: no commit) and after."""

    changes: Mapping[PartitionKey, tuple[int | None, int]]

    def rows(self) -> list[dict[str, Any]]:
        """The plan as rows to show."""
        return [
            {"topic": topic, "partition": partition, "from": before, "to": after}
            for (topic, partition), (before, after) in sorted(self.changes.items())
        ]

    def topic_partitions(self) -> list[TopicPartition]:
        """The plan as the client takes it."""
        return [TopicPartition(topic, index, after) for (topic, index), (_, after) in sorted(self.changes.items())]


def plan_reset(arguments: argparse.Namespace, admin: AdminClient, committed: Mapping[PartitionKey, int]) -> ResetPlan:
    """Where the options of `klamm group reset` would put the group.

    Raises KlammError for a topic that isn't there.
    """
    access = access_of(arguments)
    partitions = _scope(arguments, admin, committed)
    ends = end_offsets(access, admin, partitions)
    missing = [f"{topic}-{index}" for topic, index in partitions if (topic, index) not in ends]
    if missing:
        raise ClusterError(f"can't look up {', '.join(missing)}")
    if arguments.to_earliest:
        wanted = {key: start for key, (start, _) in ends.items()}
    elif arguments.to_latest:
        wanted = {key: end for key, (_, end) in ends.items()}
    elif arguments.to_offset is not None:
        wanted = {key: min(max(start, arguments.to_offset), end) for key, (start, end) in ends.items()}
    else:
        moment_ms = (
            arguments.to_datetime
            if arguments.to_datetime is not None
            else max(0, time.time_ns() // 1_000_000 - arguments.by_duration // timedelta(milliseconds=1))
        )
        found = list_offsets(access, admin, partitions, OffsetSpec.for_timestamp(moment_ms))
        # No record is that young: the group goes to the end, as Kafka's tool does.
        wanted = {key: found[key] if found.get(key, -1) >= 0 else end for key, (_, end) in ends.items()}
    return ResetPlan({key: (committed.get(key), offset) for key, offset in wanted.items()})


def _scope(
    arguments: argparse.Namespace, admin: AdminClient, committed: Mapping[PartitionKey, int]
) -> list[PartitionKey]:
    if not arguments.topic:
        return sorted(committed)
    scope: list[PartitionKey] = []
    for topic, indexes in arguments.topic:
        scope += [(topic, index) for index in indexes or partitions_of(arguments, admin, topic)]
    return sorted(set(scope))

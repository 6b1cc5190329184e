"""Plans the changes of `klamm group reset`."""

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
from klamm.insight.group.group_offsets import end_offsets, list_offsets
from klamm.insight.words import PartitionKey

__all__ = ["ResetPlan", "plan_reset"]


@dataclass(frozen=True, slots=True)
class ResetPlan:
    """The changes of a reset: for each partition the offset before (None: no commit) and after."""

    changes: Mapping[PartitionKey, tuple[int | None, int]]

    def rows(self) -> list[dict[str, Any]]:
        """Returns the plan as rows for the output."""
        return [
            {"topic": topic, "partition": partition, "from": before, "to": after}
            for (topic, partition), (before, after) in sorted(self.changes.items())
        ]

    def topic_partitions(self) -> list[TopicPartition]:
        """Returns the new offsets in the client's type."""
        return [TopicPartition(topic, index, after) for (topic, index), (_, after) in sorted(self.changes.items())]


def plan_reset(arguments: argparse.Namespace, admin: AdminClient, committed: Mapping[PartitionKey, int]) -> ResetPlan:
    """Returns the offsets that the options of `klamm group reset` select.

    Raises KlammError for a topic that does not exist.
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
        # If all records are older, the group moves to the end, as with Kafka's tool.
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

"""Plans the changes of `klamm group reset`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from klamm.cli.cluster_options import access_of, partitions_of
from klamm.insight.group.group_offsets import check_complete, end_offsets, offsets_at
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

    Raises KlammError for a topic that does not exist, and for a partition whose offsets can't be looked up.
    """
    access = access_of(arguments)
    partitions = _scope(arguments, admin, committed)
    if arguments.to_datetime is not None or arguments.by_duration is not None:
        moment_ms = (
            arguments.to_datetime
            if arguments.to_datetime is not None
            else max(0, time.time_ns() // 1_000_000 - arguments.by_duration // timedelta(milliseconds=1))
        )
        # If all records are older, the group moves to the end, as with Kafka's tool.
        wanted = offsets_at(access, admin, partitions, moment_ms)
    else:
        ends = end_offsets(access, admin, partitions)
        check_complete(partitions, ends)
        if arguments.to_earliest:
            wanted = {key: start for key, (start, _) in ends.items()}
        elif arguments.to_latest:
            wanted = {key: end for key, (_, end) in ends.items()}
        else:
            wanted = {key: min(max(start, arguments.to_offset), end) for key, (start, end) in ends.items()}
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

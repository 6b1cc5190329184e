"""Where a group stands and where it should go: lag, and what a reset would change."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from klamm.cli.cluster_options import partitions_of, result_of
from klamm.cli.errors import ClusterError
from klamm.cli.words import PartitionKey, count
from klamm.spark.application import application_in

__all__ = [
    "Committed",
    "ResetPlan",
    "check_has_no_members",
    "commit_for",
    "commits",
    "committed_offsets",
    "end_offsets",
    "lag",
    "list_offsets",
    "plan_reset",
]


def lag(committed: int | None, log_start: int | None, high_watermark: int | None) -> int | None:
    """Records between the commit, or the log's start if that came later, and the high watermark.

    None without a commit, unless there is no record to read.
    """
    if log_start is None or high_watermark is None:
        return None
    if committed is None:
        return 0 if log_start == high_watermark else None
    return max(0, high_watermark - max(committed, log_start))


@dataclass(frozen=True, slots=True)
class Committed:
    """What a group has committed."""

    offsets: Mapping[PartitionKey, int]
    applications: Mapping[PartitionKey, str]
    """Ids of the Spark applications whose queries committed, of those partitions where one did."""


def commits(arguments: argparse.Namespace, admin: AdminClient, group: str) -> Committed:
    """The group's commits, of every partition that has one. Raises ClusterError."""
    request = ConsumerGroupTopicPartitions(group)
    result = result_of(arguments, admin.list_consumer_group_offsets([request])[group])
    found = {
        (partition.topic, partition.partition): partition
        for partition in result.topic_partitions
        if partition.error is None and partition.offset >= 0
    }
    applications = {key: application_in(_metadata_of(partition)) for key, partition in found.items()}
    return Committed(
        {key: partition.offset for key, partition in found.items()},
        {key: application for key, application in applications.items() if application is not None},
    )


def _metadata_of(partition: TopicPartition) -> str:
    """A commit's metadata, and possibly what lies behind them in librdkafka's memory, which need not be text."""
    try:
        return partition.metadata or ""
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "replace")


def committed_offsets(arguments: argparse.Namespace, admin: AdminClient, group: str) -> dict[PartitionKey, int]:
    """The group's committed offsets, of every partition that has one. Raises ClusterError."""
    return dict(commits(arguments, admin, group).offsets)


def check_has_no_members(arguments: argparse.Namespace, admin: AdminClient, group: str) -> None:
    """Raises ClusterError while the group has members."""
    try:
        description = result_of(arguments, admin.describe_consumer_groups([group])[group])
    except ClusterError as error:
        if "GROUP_ID_NOT_FOUND" in str(error):
            return
        raise
    if description.members:
        they, them = ("it", "it") if len(description.members) == 1 else ("they", "them")
        raise ClusterError(
            f"group {group} has {count(len(description.members), 'live member')}: stop {them} first, "
            f"for {they} would overwrite the offsets"
        )


def commit_for(
    arguments: argparse.Namespace, admin: AdminClient, group: str, partitions: Sequence[TopicPartition]
) -> None:
    """Commits offsets for a group without members. Raises ClusterError for the first that is refused."""
    request = ConsumerGroupTopicPartitions(group, list(partitions))
    result = result_of(arguments, admin.alter_consumer_group_offsets([request])[group])
    for partition in result.topic_partitions:
        if partition.error is not None:
            raise ClusterError(f"{partition.topic}-{partition.partition}: {partition.error.str()}")


def end_offsets(
    arguments: argparse.Namespace, admin: AdminClient, partitions: Collection[PartitionKey]
) -> dict[PartitionKey, tuple[int, int]]:
    """(log start offset, high watermark) of each partition; those that are gone are left out."""
    earliest = list_offsets(arguments, admin, partitions, OffsetSpec.earliest())
    latest = list_offsets(arguments, admin, partitions, OffsetSpec.latest())
    return {key: (earliest[key], latest[key]) for key in partitions if key in earliest and key in latest}


def list_offsets(
    arguments: argparse.Namespace, admin: AdminClient, partitions: Collection[PartitionKey], spec: OffsetSpec
) -> dict[PartitionKey, int]:
    """The offset of each partition that fits `spec`; partitions that can't be looked up are left out."""
    if not partitions:
        return {}
    futures = admin.list_offsets({TopicPartition(topic, index): spec for topic, index in partitions})
    found = {}
    for partition, future in futures.items():
        try:
            found[partition.topic, partition.partition] = result_of(arguments, future).offset
        except ClusterError:
            continue
    return found


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
    partitions = _scope(arguments, admin, committed)
    ends = end_offsets(arguments, admin, partitions)
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
        found = list_offsets(arguments, admin, partitions, OffsetSpec.for_timestamp(moment_ms))
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

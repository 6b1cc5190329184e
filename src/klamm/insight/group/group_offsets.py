"""Reads and sets a group's committed offsets, reads the ends of its partitions, and computes the lag."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from klamm.client.commit_metadata import metadata_of
from klamm.client.spark_metadata import application_in
from klamm.core.delivery.commit_text import count_finished
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.insight.words import PartitionKey, count
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import Offset

__all__ = [
    "Committed",
    "check_complete",
    "check_has_no_members",
    "commit_for",
    "commits",
    "count_members",
    "committed_offsets",
    "end_offsets",
    "lag",
    "list_offsets",
    "offsets_at",
]


def lag(committed: int | None, log_start: int | None, high_watermark: int | None) -> int | None:
    """Returns the number of records between the commit, or the log start offset if that is higher, and the high
    watermark.

    Returns None without a commit, but 0 if the partition has no records.
    """
    if log_start is None or high_watermark is None:
        return None
    if committed is None:
        return 0 if log_start == high_watermark else None
    return max(0, high_watermark - max(committed, log_start))


@dataclass(frozen=True, slots=True)
class Committed:
    """The committed offsets of a group."""

    offsets: Mapping[PartitionKey, int]
    applications: Mapping[PartitionKey, str]
    """Ids of the Spark applications, for the partitions where a Spark query committed."""
    finished_beyond: Mapping[PartitionKey, int]
    """How many records beyond the committed offset are finished, for the partitions where a worker says so."""


def commits(access: ClusterAccess, admin: AdminClient, group: str) -> Committed:
    """Returns the group's commits for all partitions that have one. Raises ClusterError."""
    request = ConsumerGroupTopicPartitions(group)
    result = access.result_of(admin.list_consumer_group_offsets([request])[group])
    found = {
        (partition.topic, partition.partition): partition
        for partition in result.topic_partitions
        if partition.error is None and partition.offset >= 0
    }
    texts = {key: metadata_of(partition) for key, partition in found.items()}
    applications = {key: application_in(text) for key, text in texts.items()}
    finished = {key: count_finished(Offset(found[key].offset), text) for key, text in texts.items()}
    return Committed(
        {key: partition.offset for key, partition in found.items()},
        {key: application for key, application in applications.items() if application is not None},
        {key: number for key, number in finished.items() if number},
    )


def committed_offsets(access: ClusterAccess, admin: AdminClient, group: str) -> dict[PartitionKey, int]:
    """Returns the group's committed offsets for all partitions that have one. Raises ClusterError."""
    return dict(commits(access, admin, group).offsets)


def check_has_no_members(access: ClusterAccess, admin: AdminClient, group: str) -> None:
    """Raises ClusterError while the group has members."""
    if members := count_members(access, admin, group):
        they, them = ("it", "it") if members == 1 else ("they", "them")
        raise ClusterError(
            f"group {group} has {count(members, 'live member')}: stop {them} first, "
            f"because {they} would overwrite the offsets"
        )


def count_members(access: ClusterAccess, admin: AdminClient, group: str) -> int:
    """Returns how many members the group has; 0 for a group that does not exist. Raises ClusterError."""
    try:
        return len(access.result_of(admin.describe_consumer_groups([group])[group]).members)
    except ClusterError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return 0
        raise


def commit_for(access: ClusterAccess, admin: AdminClient, group: str, partitions: Sequence[TopicPartition]) -> None:
    """Commits offsets for a group without members. Raises ClusterError for the first refused offset."""
    request = ConsumerGroupTopicPartitions(group, list(partitions))
    result = access.result_of(admin.alter_consumer_group_offsets([request])[group])
    for partition in result.topic_partitions:
        if partition.error is not None:
            raise ClusterError(f"{partition.topic}-{partition.partition}: {partition.error.str()}")


def end_offsets(
    access: ClusterAccess, admin: AdminClient, partitions: Collection[PartitionKey]
) -> dict[PartitionKey, tuple[int, int]]:
    """Returns (log start offset, high watermark) by partition, without the partitions whose lookup failed."""
    earliest = list_offsets(access, admin, partitions, OffsetSpec.earliest())
    latest = list_offsets(access, admin, partitions, OffsetSpec.latest())
    return {key: (earliest[key], latest[key]) for key in partitions if key in earliest and key in latest}


def offsets_at(
    access: ClusterAccess, admin: AdminClient, partitions: Collection[PartitionKey], timestamp_ms: int
) -> dict[PartitionKey, int]:
    """Returns the offset of the first record at or after the timestamp by partition; the end if there is none.

    Raises ClusterError if the lookup of a partition fails: the end in its place would skip records.
    """
    ends = end_offsets(access, admin, partitions)
    found = list_offsets(access, admin, partitions, OffsetSpec.for_timestamp(timestamp_ms))
    check_complete(partitions, ends.keys() & found.keys())
    return {key: found[key] if found[key] >= 0 else end for key, (_, end) in ends.items()}


def check_complete(partitions: Collection[PartitionKey], found: Collection[PartitionKey]) -> None:
    """Raises ClusterError, with the names of the partitions whose lookup failed."""
    missing = [f"{topic}-{index}" for topic, index in partitions if (topic, index) not in found]
    if missing:
        raise ClusterError(f"can't look up {', '.join(missing)}")


def list_offsets(
    access: ClusterAccess, admin: AdminClient, partitions: Collection[PartitionKey], spec: OffsetSpec
) -> dict[PartitionKey, int]:
    """Returns the offset that matches `spec` by partition, without the partitions whose lookup failed."""
    if not partitions:
        return {}
    futures = admin.list_offsets({TopicPartition(topic, index): spec for topic, index in partitions})
    found = {}
    for partition, future in futures.items():
        try:
            found[partition.topic, partition.partition] = access.result_of(future).offset
        except ClusterError:
            continue
    return found

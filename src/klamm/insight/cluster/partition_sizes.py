"""The sizes of partitions on the brokers' disks: the API DescribeLogDirs (KIP-113)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from klamm.client.errors import ConnectionFailed
from klamm.client.operations import Ask, Steps
from klamm.errors import KlammError
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.group.group_snapshot import raw_cluster
from klamm.protocol.schema.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from klamm.protocol.schema.describe_log_dirs_response import DescribeLogDirsResponse
from klamm.protocol.types import BrokerId

__all__ = ["partition_sizes"]


def partition_sizes(access: ClusterAccess, topic: str, partitions: Sequence[int]) -> dict[int, int]:
    """Returns the bytes on the disk of one replica by partition; empty if the brokers don't tell, or don't permit it.

    The replicas of a partition may differ a little; the largest counts.
    """
    cluster = raw_cluster(access)
    if cluster is None:
        return {}
    with closing(cluster):
        try:
            cluster.refresh([topic])
            answers = cluster.run(_asking(cluster.brokers(), topic, partitions))
        except KlammError:
            return {}
    sizes: dict[int, int] = {}
    for answer in answers:
        for folder in answer.results:
            for described in folder.topics:
                for partition in described.partitions if described.name == topic else ():
                    if not partition.is_future_key:
                        known = sizes.get(partition.partition_index, 0)
                        sizes[partition.partition_index] = max(known, partition.partition_size)
    return sizes


def _asking(brokers: Sequence[BrokerId], topic: str, partitions: Sequence[int]) -> Steps[list[DescribeLogDirsResponse]]:
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=list(partitions))])
    answers = yield Ask([(broker, request) for broker in brokers], DescribeLogDirsResponse)
    return [answer for answer in answers if not isinstance(answer, ConnectionFailed)]

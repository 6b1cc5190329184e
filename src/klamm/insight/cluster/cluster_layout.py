"""Reads where the replicas of a cluster are, their bytes, and which brokers can get new ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from klamm.insight.cluster.cluster_picture import brokers_of, is_cordoned
from klamm.insight.cluster.lasting_replicas import lasting_replicas
from klamm.insight.cluster.replica_layout import ReplicaLayout
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.words import PartitionKey
from klamm.protocol.schema.describe_log_dirs_request import DescribeLogDirsRequest
from klamm.protocol.schema.describe_log_dirs_response import DescribeLogDirsResponse
from klamm.protocol.types import BrokerId

__all__ = ["ClusterLayout", "cordoned_brokers", "read_layout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLayout:
    """The layout of a cluster, and why brokers can get no new replicas."""

    replicas: ReplicaLayout
    cordoned: frozenset[int]
    """The brokers whose log directories are all cordoned. A broker that does not answer is not among them."""
    fenced: frozenset[int]
    """The registered brokers that are not live."""
    moving: frozenset[PartitionKey]
    """The partitions that move now. The layout has the replicas that they move to."""


def read_layout(requests: ClusterRequests) -> ClusterLayout:
    """Reads all topics, internal ones too. The bytes of a partition are those of its largest replica.

    Raises ClusterError.
    """
    brokers = brokers_of(requests)
    lasting = lasting_replicas(requests, None)
    questions = {BrokerId(each.broker_id): DescribeLogDirsRequest(topics=None) for each in brokers}
    answers = requests.ask_each(questions, DescribeLogDirsResponse)
    fenced = frozenset(each.broker_id for each in brokers if each.is_fenced)
    cordoned = _cordoned(answers)
    layout = ReplicaLayout(
        replicas=lasting.replicas,
        sizes_bytes=_sizes(answers.values()),
        racks={each.broker_id: each.rack for each in brokers},
        closed=fenced | cordoned,
    )
    return ClusterLayout(replicas=layout, cordoned=cordoned, fenced=fenced, moving=lasting.moving)


def cordoned_brokers(requests: ClusterRequests, brokers: Iterable[int]) -> frozenset[int]:
    """Returns those of the brokers whose log directories are all cordoned, without brokers that do not answer."""
    questions = {BrokerId(broker): DescribeLogDirsRequest(topics=[]) for broker in brokers}
    return _cordoned(requests.ask_each(questions, DescribeLogDirsResponse))


def _cordoned(answers: Mapping[BrokerId, DescribeLogDirsResponse]) -> frozenset[int]:
    return frozenset(broker for broker, answer in answers.items() if is_cordoned(answer))


def _sizes(answers: Iterable[DescribeLogDirsResponse]) -> dict[PartitionKey, int]:
    sizes: dict[PartitionKey, int] = {}
    for answer in answers:
        for folder in answer.results:
            for topic in folder.topics:
                for partition in topic.partitions:
                    if not partition.is_future_key:
                        key = topic.name, partition.partition_index
                        sizes[key] = max(sizes.get(key, 0), partition.partition_size)
    return sizes

"""Reads where the replicas of a cluster are, their bytes, and which brokers can get new ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from klamm.insight.cluster.cluster_picture import brokers_of
from klamm.insight.cluster.moving_partitions import reassignments_in_progress
from klamm.insight.cluster.replica_layout import ReplicaLayout
from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.topic.partition_states import partition_states
from klamm.insight.words import PartitionKey
from klamm.protocol.schema.describe_log_dirs_request import DescribeLogDirsRequest
from klamm.protocol.schema.describe_log_dirs_response import DescribeLogDirsResponse
from klamm.protocol.types import BrokerId

__all__ = ["ClusterLayout", "read_layout"]


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
    moving = reassignments_in_progress(requests)
    topics = partition_states(requests, None)
    replicas = {
        state.key: tuple(
            broker for broker in state.replicas if state.key not in moving or broker not in moving[state.key].removing
        )
        for topic in topics.values()
        for state in topic.partitions
    }
    questions = {BrokerId(each.broker_id): DescribeLogDirsRequest(topics=None) for each in brokers}
    answers = requests.ask_each(questions, DescribeLogDirsResponse)
    fenced = frozenset(each.broker_id for each in brokers if each.is_fenced)
    cordoned = frozenset(broker for broker, answer in answers.items() if _is_cordoned(answer))
    layout = ReplicaLayout(
        replicas=replicas,
        sizes_bytes=_sizes(answers.values()),
        racks={each.broker_id: each.rack for each in brokers},
        closed=fenced | cordoned,
    )
    return ClusterLayout(replicas=layout, cordoned=cordoned, fenced=fenced, moving=frozenset(moving))


def _is_cordoned(answer: DescribeLogDirsResponse) -> bool:
    online = [folder for folder in answer.results if not folder.error_code]
    return bool(online) and all(folder.is_cordoned for folder in online)


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

"""A cluster at one moment: its brokers, what each of them leads and stores, and the partitions that need attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from klamm.insight.cluster.moving_partitions import Moving, reassignments_in_progress
from klamm.insight.cluster_requests import ClusterRequests, code_name
from klamm.insight.errors import ClusterError, NotOffered
from klamm.insight.topic.partition_states import PartitionState, partition_states
from klamm.insight.topic.topic_settings import topic_settings
from klamm.insight.words import PartitionKey
from klamm.protocol.schema.describe_cluster_request import DescribeClusterRequest
from klamm.protocol.schema.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from klamm.protocol.schema.describe_log_dirs_request import DescribeLogDirsRequest
from klamm.protocol.schema.describe_log_dirs_response import DescribeLogDirsResponse
from klamm.protocol.types import BrokerId

__all__ = ["BrokerPicture", "ClusterPicture", "brokers_of", "is_cordoned", "read_cluster"]

_NO_BROKER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPicture:
    """A broker, and its places in all partitions of the cluster."""

    id: int
    host: str | None = None
    """None for a broker that has replicas and is not registered now. Kafka lists such brokers as fenced."""
    port: int | None = None
    rack: str | None = None
    is_fenced: bool = False
    leaders: int
    replicas: int
    in_sync: int
    size_bytes: int | None = None
    """The bytes of all replicas on its disks; None if it does not answer or does not permit DescribeLogDirs."""
    failed_folders: tuple[str, ...] = ()
    """Log directories that are offline."""
    is_cordoned: bool = False
    """Whether it gets no new replicas: all its log directories are cordoned (KIP-1066). False if it does not answer."""

    @property
    def state(self) -> str:
        """`active`, `fenced` (registered, and not in contact with the controller) or `absent` (not registered)."""
        return "absent" if self.host is None else "fenced" if self.is_fenced else "active"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPicture:
    """The cluster, and the partitions that need attention."""

    cluster_id: str
    controller: int | None
    brokers: tuple[BrokerPicture, ...]
    topics: int
    partitions: int
    under_replicated: tuple[PartitionKey, ...]
    unavailable: tuple[PartitionKey, ...]
    """Partitions without a leader."""
    under_min_isr: tuple[PartitionKey, ...]
    """Partitions that refuse writes with acks=all."""
    moving: tuple[Moving, ...]


def read_cluster(requests: ClusterRequests) -> ClusterPicture:
    """Reads the whole cluster. Raises ClusterError."""
    described = _describe(requests)
    topics = partition_states(requests, None)
    settings = topic_settings(requests, list(topics))
    moving = reassignments_in_progress(requests)
    states = [state for topic in topics.values() for state in topic.partitions]
    minimum = {name: each.min_insync_replicas for name, each in settings.items()}
    return ClusterPicture(
        cluster_id=described.cluster_id,
        controller=described.controller_id if described.controller_id != _NO_BROKER else None,
        brokers=_brokers(described.brokers, states, _folders(requests, described.brokers)),
        topics=len(topics),
        partitions=len(states),
        under_replicated=tuple(
            each.key
            for each in states
            if each.is_under_replicated(moving[each.key].adding if each.key in moving else ())
        ),
        unavailable=tuple(each.key for each in states if each.is_unavailable),
        under_min_isr=tuple(each.key for each in states if each.is_under_min_isr(minimum.get(each.topic) or 1)),
        moving=tuple(moving.values()),
    )


def brokers_of(requests: ClusterRequests) -> list[DescribeClusterBroker]:
    """Returns the brokers with their racks, in the order of their ids, fenced ones too. Raises ClusterError."""
    return sorted(_describe(requests).brokers, key=lambda each: each.broker_id)


def _describe(requests: ClusterRequests) -> DescribeClusterResponse:
    try:
        described = requests.ask(DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse)
    except NotOffered:  # before Apache Kafka 4.0 (KIP-1073)
        described = requests.ask(DescribeClusterRequest(), DescribeClusterResponse)
    if described.error_code:
        raise ClusterError(f"{code_name(described.error_code)}: {described.error_message or 'DescribeCluster failed'}")
    return described


def _folders(
    requests: ClusterRequests, brokers: Iterable[DescribeClusterBroker]
) -> dict[BrokerId, DescribeLogDirsResponse]:
    questions = {BrokerId(each.broker_id): DescribeLogDirsRequest(topics=None) for each in brokers}
    answers = requests.ask_each(questions, DescribeLogDirsResponse)
    # Without a permission the answer is empty, before version 3 even without an error.
    return {broker: answer for broker, answer in answers.items() if not answer.error_code and answer.results}


def _brokers(
    described: Iterable[DescribeClusterBroker],
    states: Iterable[PartitionState],
    folders: Mapping[BrokerId, DescribeLogDirsResponse],
) -> tuple[BrokerPicture, ...]:
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    in_sync: Counter[int] = Counter()
    for state in states:
        if state.leader is not None:
            leaders[state.leader] += 1
        replicas.update(state.replicas)
        in_sync.update(state.isr)

    def picture(broker: int, **details: Any) -> BrokerPicture:
        return BrokerPicture(
            id=broker, leaders=leaders[broker], replicas=replicas[broker], in_sync=in_sync[broker], **details
        )

    registered = {each.broker_id: each for each in described}
    pictures = [picture(broker) for broker in replicas.keys() - registered.keys()]
    for broker, each in registered.items():
        answer = folders.get(BrokerId(broker))
        results = answer.results if answer is not None else []
        pictures.append(
            picture(
                broker,
                host=each.host,
                port=each.port,
                rack=each.rack,
                is_fenced=each.is_fenced,
                size_bytes=None if answer is None else _size_bytes(answer),
                failed_folders=tuple(folder.log_dir for folder in results if folder.error_code),
                is_cordoned=answer is not None and is_cordoned(answer),
            )
        )
    return tuple(sorted(pictures, key=lambda each: each.id))


def is_cordoned(answer: DescribeLogDirsResponse) -> bool:
    """Returns whether all log directories of the broker that are online are cordoned."""
    online = [folder for folder in answer.results if not folder.error_code]
    return bool(online) and all(folder.is_cordoned for folder in online)


def _size_bytes(answer: DescribeLogDirsResponse) -> int:
    return sum(
        partition.partition_size
        for folder in answer.results
        for topic in folder.topics
        for partition in topic.partitions
    )

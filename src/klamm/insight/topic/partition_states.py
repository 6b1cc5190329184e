"""The partitions of topics as the cluster's metadata show them: leaders, replicas and in-sync replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import TopicCollection

from klamm.insight.cluster_access import TIMEOUT_S, ClusterAccess
from klamm.insight.cluster_requests import ClusterRequests, code_name
from klamm.insight.errors import ClusterError
from klamm.insight.words import PartitionKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_topic_partitions_request import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from klamm.protocol.schema.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
)
from klamm.protocol.types import ZERO_TOPIC_ID, TopicId

__all__ = ["PartitionState", "TopicState", "missing_topic", "partition_states", "topic_states_of_librdkafka"]

_PAGE_PARTITIONS: Final = 2000
"""The partitions of one answer at most; `max.request.partition.size.limit` of a broker is 2000 by default."""
_MISSING: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition in the metadata. Brokers are ids; the first replica is the preferred leader."""

    topic: str
    index: int
    leader: int | None
    """None while no live broker leads the partition."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    """Eligible leader replicas (KIP-966); None if the cluster does not tell them."""
    last_known_elr: tuple[int, ...] | None = None
    topic_id: TopicId = ZERO_TOPIC_ID
    """Zero if librdkafka was asked."""

    @property
    def key(self) -> PartitionKey:
        """Topic and index."""
        return self.topic, self.index

    @property
    def is_unavailable(self) -> bool:
        """Whether no broker leads the partition."""
        return self.leader is None

    def is_under_replicated(self, adding: Collection[int] = ()) -> bool:
        """Returns whether a replica is not in sync. Replicas that a reassignment adds do not count while they copy, as
        in `kafka-topics --under-replicated-partitions`."""
        return len(self.isr) < len(self.replicas) - len(set(adding) - set(self.isr))

    def is_under_min_isr(self, min_insync_replicas: int) -> bool:
        """Returns whether writes with acks=all are refused. No partition needs more in-sync replicas than it has.

        Source: `Partition.effectiveMinIsr` of Apache Kafka 4.3.
        """
        return len(self.isr) < min(min_insync_replicas, len(self.replicas))


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic in the metadata, with its partitions in the order of their indexes."""

    name: str
    is_internal: bool
    partitions: list[PartitionState] = field(default_factory=list)


def partition_states(
    requests: ClusterRequests, topics: Collection[str] | None, *, leaves_out_missing: bool = False
) -> dict[str, TopicState]:
    """Returns the named topics, or all (None), by name in alphabetical order, asked with DescribeTopicPartitions.

    Raises ClusterError for a topic that does not exist, unless it `leaves_out_missing` topics, and NotOffered for a
    cluster before Apache Kafka 3.8.
    """
    wanted = [TopicRequest(name=name) for name in sorted(set(topics or ()))]
    if topics is not None and not wanted:
        return {}
    states: dict[str, TopicState] = {}
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[each for each in wanted if cursor is None or each.name >= cursor.topic_name],
            response_partition_limit=_PAGE_PARTITIONS,
            cursor=cursor,
        )
        page = requests.ask(request, DescribeTopicPartitionsResponse)
        for topic in page.topics:
            name = topic.name or ""
            if topic.error_code in _MISSING:
                if topics is not None and not leaves_out_missing:
                    raise missing_topic(name)
                continue
            if topic.error_code:
                raise ClusterError(f"topic {name}: {code_name(topic.error_code)}")
            state = states.setdefault(name, TopicState(name, topic.is_internal))
            state.partitions.extend(_state(name, TopicId(topic.topic_id), each) for each in topic.partitions)
        if page.next_cursor is None:
            break
        cursor = Cursor(topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index)
    return _in_order(states)


def missing_topic(name: str) -> ClusterError:
    """Returns the error for a topic that does not exist."""
    return ClusterError(f"there is no topic {name}; `klamm topic list --all` shows the topics")


def topic_states_of_librdkafka(access: ClusterAccess, topics: Collection[str] | None) -> dict[str, TopicState]:
    """Returns the same as `partition_states`, asked through librdkafka, which tells no eligible leader replicas."""
    admin = access.admin_client()
    # A metadata request for one topic may create it; a request for all topics doesn't.
    existing = access.translate(lambda: admin.list_topics(timeout=TIMEOUT_S)).topics
    for name in topics or ():
        if name not in existing:
            raise missing_topic(name)
    names = sorted(existing if topics is None else set(topics))
    states = {}
    for name, future in admin.describe_topics(TopicCollection(names)).items() if names else ():
        described = access.result_of(future)
        states[name] = TopicState(
            name,
            described.is_internal,
            [
                PartitionState(
                    topic=name,
                    index=each.id,
                    leader=each.leader.id if each.leader is not None and each.leader.id >= 0 else None,
                    replicas=_ids(node.id for node in each.replicas),
                    isr=_ids(node.id for node in each.isr),
                )
                for each in described.partitions
            ],
        )
    return _in_order(states)


def _in_order(states: Mapping[str, TopicState]) -> dict[str, TopicState]:
    for state in states.values():
        state.partitions.sort(key=lambda each: each.index)
    return dict(sorted(states.items()))


def _state(topic: str, topic_id: TopicId, described: DescribeTopicPartitionsResponsePartition) -> PartitionState:
    elr, last_known = described.eligible_leader_replicas, described.last_known_elr
    return PartitionState(
        topic=topic,
        index=described.partition_index,
        leader=described.leader_id if described.leader_id >= 0 else None,
        replicas=_ids(described.replica_nodes),
        isr=_ids(described.isr_nodes),
        elr=None if elr is None else _ids(elr),
        last_known_elr=None if last_known is None else _ids(last_known),
        topic_id=topic_id,
    )


def _ids(brokers: Iterable[int]) -> tuple[int, ...]:
    return tuple(int(broker) for broker in brokers)

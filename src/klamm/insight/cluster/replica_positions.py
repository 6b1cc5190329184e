"""How far each replica of a partition came, and the bytes that it has on disk.

A replica tells its log end offset to a debugging consumer (ListOffsets with replica id -2), also if it follows. Its lag
behind the leader's log end offset is calculated. The leader tells its high watermark to a consumer that asks for the
latest offset, a follower to a consumer that fetches from it (KIP-392). DescribeLogDirs tells the bytes (KIP-113).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from klamm.insight.cluster_requests import ClusterRequests
from klamm.insight.topic.partition_states import PartitionState
from klamm.insight.words import PartitionKey
from klamm.protocol.schema.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from klamm.protocol.schema.describe_log_dirs_response import DescribeLogDirsResponse
from klamm.protocol.schema.fetch_request import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.schema.fetch_response import FetchResponse
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.types import BrokerId, TopicId

__all__ = ["PartitionPositions", "ReplicaPosition", "replica_positions"]

_CONSUMER: Final = -1
_DEBUGGING: Final = -2
_LATEST: Final = -1
_TIMEOUT_MS: Final = 10_000

_Keys = Iterable[tuple[int, PartitionKey]]
"""Brokers with partitions of which they have a replica."""


@dataclass(frozen=True, slots=True)
class ReplicaPosition:
    """One replica; None for what its broker did not tell."""

    broker: int
    log_end_offset: int | None
    high_watermark: int | None
    """A follower learns that of the leader with each of its requests. None if it was not asked for."""
    lag: int | None
    """Offsets behind the log end offset of the leader; never negative."""
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class PartitionPositions:
    """The replicas of one partition, in the order of the metadata."""

    high_watermark: int | None
    """The high watermark of the leader: the first offset that consumers can't read yet."""
    replicas: tuple[ReplicaPosition, ...]

    @property
    def largest_lag(self) -> int | None:
        """The lag of the replica that is farthest behind; None if no replica's lag is known."""
        return max((each.lag for each in self.replicas if each.lag is not None), default=None)

    @property
    def size_bytes(self) -> int | None:
        """The bytes of all replicas whose brokers told them; None if no broker did."""
        sizes = [each.size_bytes for each in self.replicas if each.size_bytes is not None]
        return sum(sizes) if sizes else None

    def of(self, broker: int) -> ReplicaPosition | None:
        """Returns the replica on a broker; None if there is none."""
        return next((each for each in self.replicas if each.broker == broker), None)


def replica_positions(
    requests: ClusterRequests, partitions: Iterable[PartitionState], *, asks_followers: bool = False
) -> dict[PartitionKey, PartitionPositions]:
    """Returns the positions of all replicas. Brokers that don't answer leave None. With `asks_followers`, also the high
    watermarks of followers.

    The brokers are asked one after the other, so lags are of slightly different moments. The leaders' log end offsets
    are asked last, so that a lag is rather too large than too small.
    """
    states = list(partitions)
    places = [(broker, each.key) for each in states for broker in each.replicas]
    leaders = [(each.leader, each.key) for each in states if each.leader is not None]
    leading = set(leaders)
    following = [place for place in places if place not in leading]
    sizes = _sizes(requests, places)
    ends = _offsets(requests, following, _DEBUGGING)
    high_watermarks = _offsets(requests, leaders, _CONSUMER)
    if asks_followers:
        high_watermarks |= _high_watermarks(requests, {each.key: each.topic_id for each in states}, following, ends)
    ends |= _offsets(requests, leaders, _DEBUGGING)
    return {each.key: _positions(each, ends, high_watermarks, sizes) for each in states}


def _positions(
    state: PartitionState,
    ends: Mapping[tuple[int, PartitionKey], int],
    high_watermarks: Mapping[tuple[int, PartitionKey], int],
    sizes: Mapping[tuple[int, PartitionKey], int],
) -> PartitionPositions:
    leader_end = None if state.leader is None else ends.get((state.leader, state.key))
    replicas = []
    for broker in state.replicas:
        end = ends.get((broker, state.key))
        lag = max(0, leader_end - end) if leader_end is not None and end is not None else None
        place = broker, state.key
        replicas.append(ReplicaPosition(broker, end, high_watermarks.get(place), lag, sizes.get(place)))
    high_watermark = None if state.leader is None else high_watermarks.get((state.leader, state.key))
    return PartitionPositions(high_watermark, tuple(replicas))


def _offsets(requests: ClusterRequests, places: _Keys, replica_id: int) -> dict[tuple[int, PartitionKey], int]:
    """Returns the latest offsets: the high watermark for a consumer, the log end offset for a debugging consumer."""
    questions = {
        BrokerId(broker): ListOffsetsRequest(
            replica_id=replica_id,
            timeout_ms=_TIMEOUT_MS,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in indexes],
                )
                for topic, indexes in topics.items()
            ],
        )
        for broker, topics in _by_broker(places).items()
    }
    return {
        (broker, (topic.name, partition.partition_index)): partition.offset
        for broker, answer in requests.ask_each(questions, ListOffsetsResponse).items()
        for topic in answer.topics
        for partition in topic.partitions
        if not partition.error_code
    }


def _high_watermarks(
    requests: ClusterRequests,
    topic_ids: Mapping[PartitionKey, TopicId],
    places: _Keys,
    ends: Mapping[tuple[int, PartitionKey], int],
) -> dict[tuple[int, PartitionKey], int]:
    """Returns the high watermarks that followers know. The requests begin at the ends of the logs, so that the answers
    have no records."""
    names = {topic_id: topic for (topic, _), topic_id in topic_ids.items()}
    known = [(broker, key) for broker, key in places if (broker, key) in ends]
    questions = {
        BrokerId(broker): FetchRequest(
            max_bytes=1,
            topics=[
                FetchTopic(
                    topic_id=topic_ids[topic, indexes[0]],
                    partitions=[
                        FetchPartition(
                            partition=index, fetch_offset=ends[broker, (topic, index)], partition_max_bytes=1
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in topics.items()
            ],
        )
        for broker, topics in _by_broker(known).items()
    }
    return {
        (broker, (names[TopicId(topic.topic_id)], partition.partition_index)): partition.high_watermark
        for broker, answer in requests.ask_each(questions, FetchResponse).items()
        for topic in answer.responses
        for partition in topic.partitions
        if not partition.error_code
    }


def _sizes(requests: ClusterRequests, places: _Keys) -> dict[tuple[int, PartitionKey], int]:
    questions = {
        BrokerId(broker): DescribeLogDirsRequest(
            topics=[DescribableLogDirTopic(topic=topic, partitions=indexes) for topic, indexes in topics.items()]
        )
        for broker, topics in _by_broker(places).items()
    }
    return {
        (broker, (topic.name, partition.partition_index)): partition.partition_size
        for broker, answer in requests.ask_each(questions, DescribeLogDirsResponse).items()
        for folder in answer.results
        for topic in folder.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }


def _by_broker(places: _Keys) -> dict[int, dict[str, list[int]]]:
    """Returns the indexes of partitions by broker and topic."""
    brokers: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for broker, (topic, index) in places:
        brokers[broker][topic].append(index)
    return {broker: dict(topics) for broker, topics in brokers.items()}

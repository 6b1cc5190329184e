"""Ranges of many partitions, many in one Fetch, without the connection: whom to ask for what, what an answer settles.

For ranges of few records, of which one answer holds many. All that can be said of a partition but "here is all of it"
is the business of `partition_stream.py`: an error, an offset that is not there, a leader that is another, records that
nobody may read yet, more than an answer holds. A range that meets it is dropped where it stands, to be streamed alone.
`fetch.py` has the face.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from klamm.client.cluster_view import ClusterView
from klamm.client.conversation import Pending
from klamm.client.fetch_exchange import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    FetchConnection,
    FetchedBatches,
    batches_of,
    fetch_version,
    partition_wanted,
    read_answer,
    send_fetch,
)
from klamm.client.fetch_session import WITHOUT_SESSION
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.fetch_client import FetchResponse
from klamm.protocol.fetch_messages import FetchPartitionResponse, FetchTopic
from klamm.protocol.types import ZERO_TOPIC_ID, BrokerId, Offset, TopicId, TopicPartition

__all__ = ["FetchRange", "JointRequest", "JointStream", "JointUnderWay"]

# While the client works on one answer the broker reads for the next: of a thousand small ranges at once, neither could.
_MOST_PARTITIONS: Final = 100

_Key = tuple[TopicId | str | None, int]
"""How an answer names a partition: by the id of its topic or the name, as the version has it, and by its index."""


class FetchRange(NamedTuple):
    """The offsets [start, end) of one partition; not empty."""

    topic_partition: TopicPartition
    start: Offset
    end: Offset


class JointRequest(NamedTuple):
    """What one broker is to be asked for: ranges, by their numbers."""

    broker: BrokerId
    numbers: Sequence[int]


class JointUnderWay(NamedTuple):
    """A request that was sent."""

    request: JointRequest
    pending: Pending
    asked: dict[_Key, int]
    """The number of each range that it names."""


class JointStream:
    """Some ranges, each known by its number: where it stands in what was given."""

    def __init__(self, cluster: ClusterView, ranges: Sequence[FetchRange]) -> None:
        self._cluster = cluster
        self._ranges = ranges
        self._most = _MOST_PARTITIONS
        self._to_ask: dict[BrokerId, deque[int]] = {}
        named: set[TopicPartition] = set()
        for number, one in enumerate(ranges):
            leader = cluster.leader_of(one.topic_partition)
            # A request can't name a partition twice.
            if leader is not None and one.topic_partition not in named:
                named.add(one.topic_partition)
                self._to_ask.setdefault(leader.broker, deque()).append(number)

    def next_request(self) -> JointRequest | None:
        """What to ask for next; None if there is nothing more."""
        for broker, numbers in self._to_ask.items():
            if numbers:
                return JointRequest(broker, [numbers.popleft() for _ in range(min(self._most, len(numbers)))])
        return None

    def send(self, connection: FetchConnection, request: JointRequest) -> JointUnderWay:
        """Asks for the ranges, each from its start on. Raises `ConnectionFailed`."""
        by_name: dict[str, list[int]] = {}
        for number in request.numbers:
            by_name.setdefault(self._ranges[number].topic_partition.topic, []).append(number)
        ids = {name: self._topic_id(name) for name in by_name}
        version = fetch_version(connection, ids.values())
        asked: dict[_Key, int] = {}
        topics: list[FetchTopic] = []
        for name, numbers in by_name.items():
            wanted = [
                partition_wanted(self._cluster, self._ranges[number].topic_partition, self._ranges[number].start)
                for number in numbers
            ]
            topics.append(FetchTopic(name, ids[name], wanted))
            key = ids[name] if version >= FIRST_VERSION_WITH_TOPIC_IDS else name
            asked.update(((key, one.index), number) for one, number in zip(wanted, numbers, strict=True))
        config = self._cluster.config
        # As much at once as the stream of one partition gets. What is not there yet is not waited for.
        max_bytes = min(config.fetch_max_bytes, config.max_partition_fetch_bytes)
        pending = send_fetch(connection, version, config, topics, WITHOUT_SESSION, max_bytes=max_bytes, max_wait_ms=0)
        return JointUnderWay(request, pending, asked)

    def received(
        self, connection: FetchConnection, under_way: JointUnderWay, body: memoryview
    ) -> list[tuple[int, FetchedBatches]]:
        """What an answer brought, by the numbers of the ranges. Raises `ConnectionFailed` if it can't be read."""
        answer = read_answer(connection, under_way.pending, body)
        came: list[tuple[int, FetchedBatches]] = []
        nothing_came: list[int] = []
        for number, partition in _answered(answer, under_way.asked):
            # Whoever streams the range alone meets the error again, or what is no batch, and knows what to do.
            if partition.error_code != ErrorCode.none:
                continue
            try:
                fetched = batches_of(partition, self._ranges[number].start)
            except KafkaError:
                continue
            if fetched is None:
                nothing_came.append(number)
            else:
                came.append((number, fetched))
        self._ask_again_or_drop(under_way.request.broker, nothing_came, len(came))
        return came

    def failed(self, request: JointRequest) -> None:
        """Tells that a request was not answered: its broker is not asked again."""
        del self._to_ask[request.broker]

    def _ask_again_or_drop(self, broker: BrokerId, numbers: list[int], came: int) -> None:
        """What to do with the ranges of which an answer had nothing, although it brought something of others.

        It may have had no room for them. If it was not that, they are asked for last, and an answer with nothing at all
        tells.
        """
        if came and numbers:
            self._to_ask[broker].extend(numbers)
            # Brokers look at each partition that is named, whether they have room for it or not.
            self._most = min(2 * came, _MOST_PARTITIONS)
        else:
            self._most = _MOST_PARTITIONS

    def _topic_id(self, name: str) -> TopicId:
        topic = self._cluster.topic(name)
        return ZERO_TOPIC_ID if topic is None else topic.topic_id


def _answered(answer: FetchResponse, asked: dict[_Key, int]) -> Iterator[tuple[int, FetchPartitionResponse]]:
    """The partitions of an answer, each with its number; one that nobody asked for is passed over."""
    for topic in answer.topics:
        key = topic.name if topic.topic_id is None else topic.topic_id
        for partition in topic.partitions:
            number = asked.get((key, partition.index))
            if number is not None:
                yield number, partition

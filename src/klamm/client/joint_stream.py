"""Ranges of many partitions, many per Fetch request, without the connection: what to request, what a response holds.

For ranges of few records, of which one response holds many. Only complete, readable ranges are handled here. A range
is dropped at its current position on an error, a missing offset, another leader, records that are not readable yet, or
more records than a response holds; `partition_stream.py` then streams it alone. `fetch.py` adds the connections.
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

# Smaller requests let the broker read for the next response while the client works on the current one.
_MOST_PARTITIONS: Final = 100

_Key = tuple[TopicId | str | None, int]
"""How a response names a partition: by its topic's id or name, depending on the version, and by its index."""


class FetchRange(NamedTuple):
    """The offsets [start, end) of one partition; not empty."""

    topic_partition: TopicPartition
    start: Offset
    end: Offset


class JointRequest(NamedTuple):
    """The ranges to request from one broker, by their numbers."""

    broker: BrokerId
    numbers: Sequence[int]


class JointUnderWay(NamedTuple):
    """A request in flight."""

    request: JointRequest
    pending: Pending
    asked: dict[_Key, int]
    """The number of each range in the request."""


class JointStream:
    """Some ranges, each identified by its number: its index in `ranges`."""

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
        """Returns the next request; None if there is none."""
        for broker, numbers in self._to_ask.items():
            if numbers:
                return JointRequest(broker, [numbers.popleft() for _ in range(min(self._most, len(numbers)))])
        return None

    def send(self, connection: FetchConnection, request: JointRequest) -> JointUnderWay:
        """Sends a request for the ranges, each from its start on. Raises `ConnectionFailed`."""
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
        # As many bytes as the stream of one partition gets. The broker does not wait for records to arrive.
        max_bytes = min(config.fetch_max_bytes, config.max_partition_fetch_bytes)
        pending = send_fetch(connection, version, config, topics, WITHOUT_SESSION, max_bytes=max_bytes, max_wait_ms=0)
        return JointUnderWay(request, pending, asked)

    def received(
        self, connection: FetchConnection, under_way: JointUnderWay, body: memoryview
    ) -> list[tuple[int, FetchedBatches]]:
        """Returns the batches of a response by range number. Raises `ConnectionFailed` if the response can't be
        read."""
        answer = read_answer(connection, under_way.pending, body)
        came: list[tuple[int, FetchedBatches]] = []
        nothing_came: list[int] = []
        for number, partition in _answered(answer, under_way.asked):
            # Streaming the range alone meets the error or the malformed batch again and handles it there.
            if partition.error_code != ErrorCode.NONE:
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
        """Drops the broker of a failed request: it gets no further request."""
        del self._to_ask[request.broker]

    def _ask_again_or_drop(self, broker: BrokerId, numbers: list[int], came: int) -> None:
        """Queues the ranges without batches in a response again, if the response held batches of other ranges.

        The response may have had no room for them, so they are requested last. A response without any batch drops them.
        """
        if came and numbers:
            self._to_ask[broker].extend(numbers)
            # Brokers process each partition in the request, whether the response has room for it or not.
            self._most = min(2 * came, _MOST_PARTITIONS)
        else:
            self._most = _MOST_PARTITIONS

    def _topic_id(self, name: str) -> TopicId:
        topic = self._cluster.topic(name)
        return ZERO_TOPIC_ID if topic is None else topic.topic_id


def _answered(answer: FetchResponse, asked: dict[_Key, int]) -> Iterator[tuple[int, FetchPartitionResponse]]:
    """Yields the partitions of a response, each with its range's number; skips partitions that were not requested."""
    for topic in answer.topics:
        key = topic.name if topic.topic_id is None else topic.topic_id
        for partition in topic.partitions:
            number = asked.get((key, partition.index))
            if number is not None:
                yield number, partition

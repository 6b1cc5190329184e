"""The fetch session of a follower with one leader: which partitions to fetch from which offsets, request by request.

A session (KIP-227) names only what has changed since the last request, so that a broker with ten thousand idle
partitions sends almost nothing. A request adds or changes at most `_MOST_NAMED` partitions, so that no request takes
long to encode or to decode; the others follow in the next requests, which do not wait for records.

A partition that failed is delayed: it leaves the session, and returns when its time has come. A partition whose log is
being truncated is paused.

Source: `AbstractFetcherThread` and `FetchSessionHandler` of Apache Kafka 4.3. The module does no I/O.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import Final, NamedTuple, TypeAlias

from klamm.protocol.schema.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, TopicId

__all__ = ["FetchLimits", "FetchPosition", "FollowerFetch", "PartitionKey"]

PartitionKey: TypeAlias = tuple[TopicId, int]

_MOST_NAMED: Final = 500
"""The largest number of partitions that a request adds or changes."""
_NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0
_HIGHEST_EPOCH: Final = 2**31 - 1


class FetchPosition(NamedTuple):
    """What a follower asks for in one partition, and what it tells the leader about its log."""

    leader_epoch: LeaderEpoch
    offset: Offset
    last_fetched_epoch: LeaderEpoch
    """The latest leader epoch in the follower's log; -1 for an empty log."""
    log_start_offset: Offset
    high_watermark: Offset


class FetchLimits(NamedTuple):
    """The limits of a request: `replica.fetch.wait.max.ms`, `.min.bytes`, `.response.max.bytes` and `.max.bytes`."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int


class FollowerFetch:
    """The partitions that a follower fetches from one leader, and its session with that leader.

    Times are milliseconds of a monotonic clock.
    """

    def __init__(self, broker_id: BrokerId, limits: FetchLimits) -> None:
        self.limits = limits
        self._broker_id = broker_id
        self._positions: dict[PartitionKey, FetchPosition] = {}
        self._unsent: dict[PartitionKey, None] = {}
        """Partitions whose position the leader does not know, in the order of their requests."""
        self._known: dict[PartitionKey, FetchPosition] = {}
        """The partitions of the last request and of its session, as the leader knows them."""
        self._forgotten: dict[PartitionKey, None] = {}
        self._delayed: dict[PartitionKey, float] = {}
        self._due: list[tuple[float, PartitionKey]] = []
        self._session_id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._sent: list[PartitionKey] = []
        self._is_refused = False
        """Whether the leader keeps no session: then all partitions are requested in turn, some at a time."""

    def __len__(self) -> int:
        return len(self._positions)

    def answered(self, key: PartitionKey) -> FetchPosition | None:
        """Returns the position to which an answer of the leader belongs; None for an answer that is outdated, because
        the partition was removed, delayed or moved after the request.
        """
        position = self._known.get(key)
        return (
            position
            if position is not None and self._positions.get(key) == position and not self._delayed.get(key)
            else None
        )

    def put(self, key: PartitionKey, position: FetchPosition) -> None:
        """Adds a partition, or moves it to another position. A delay of the partition ends."""
        was_delayed = self._delayed.pop(key, None) is not None
        if not was_delayed and self._positions.get(key) == position:
            return
        self._positions[key] = position
        self._forgotten.pop(key, None)
        self._unsent[key] = None

    def remove(self, key: PartitionKey) -> None:
        """Stops fetching a partition."""
        if self._positions.pop(key, None) is not None:
            self._delayed.pop(key, None)
            self._leave(key)

    def delay(self, key: PartitionKey, until_ms: float) -> None:
        """Fetches a partition again from the given time on, or once `put` has changed its position."""
        if key in self._positions:
            self._delayed[key] = until_ms
            heappush(self._due, (until_ms, key))
            self._leave(key)

    def hold(self, key: PartitionKey, until_ms: float) -> None:
        """Delays a partition, unless it is delayed already."""
        if key not in self._delayed:
            self.delay(key, until_ms)

    def release_due(self, now_ms: float) -> None:
        """Ends the delays that are over: the next request names their partitions."""
        while self.due_in_ms(now_ms) == 0.0:
            key = heappop(self._due)[1]
            del self._delayed[key]
            self._forgotten.pop(key, None)
            self._unsent[key] = None

    def pause(self, key: PartitionKey) -> None:
        """Stops fetching a partition until `put`."""
        if key in self._positions:
            self._delayed[key] = inf
            self._leave(key)

    def _leave(self, key: PartitionKey) -> None:
        self._unsent.pop(key, None)
        if key in self._known:
            self._forgotten[key] = None

    def reset(self) -> None:
        """Begins a new session: the connection is lost, for example."""
        self._session_id, self._epoch = _NO_SESSION, _FIRST_EPOCH
        self._known.clear()
        self._forgotten.clear()
        self._sent.clear()
        self._unsent = {key: None for key in self._positions if key not in self._delayed}

    def due_in_ms(self, now_ms: float) -> float | None:
        """Returns after which time a delayed partition is due; None if there is none."""
        while self._due and self._delayed.get(self._due[0][1]) != self._due[0][0]:
            heappop(self._due)
        return max(0.0, self._due[0][0] - now_ms) if self._due else None

    def next_request(self, broker_epoch: int, now_ms: float) -> FetchRequest | None:
        """Returns the next request; None if there is no partition to fetch.

        The outcome must be reported by `received` or `reset` before the next call.
        """
        self.release_due(now_ms)
        if self._is_refused:
            # Without a session each request has only what it names. Partitions that have got records come last, as in a
            # session: otherwise they could take all the room of each answer.
            for key in sorted(self._sent, key=self._unsent.__contains__):
                if key in self._positions and key not in self._delayed:
                    self._unsent.pop(key, None)
                    self._unsent[key] = None
            self._known.clear()
            self._forgotten.clear()
        named = list(self._unsent)[:_MOST_NAMED]
        if not named and len(self._known) == len(self._forgotten):
            return None
        for key in named:
            del self._unsent[key]
        self._sent = named
        limits = self.limits
        forgotten, self._forgotten = self._forgotten, {}
        for key in forgotten:
            del self._known[key]
        self._known.update((key, self._positions[key]) for key in named)
        is_complete = not self._unsent
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self._broker_id, replica_epoch=broker_epoch),
            max_wait_ms=limits.max_wait_ms if is_complete or self._is_refused else 0,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=self._topics(named),
            forgotten_topics_data=_forgotten_topics(forgotten) if self._session_id != _NO_SESSION else [],
        )

    def _topics(self, named: list[PartitionKey]) -> list[FetchTopic]:
        topics: dict[TopicId, FetchTopic] = {}
        for key in named:
            topic_id, index = key
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
            position = self._positions[key]
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=self.limits.partition_max_bytes,
                    high_watermark=position.high_watermark,
                )
            )
        return list(topics.values())

    def received(self, session_id: int, error_code: int) -> bool:
        """Records the outcome of a request, and returns whether its answers for partitions are valid.

        An error of the session ends it: the next request begins a new one. `answered` and `put` follow for each answer,
        then `next_request`.
        """
        if error_code:
            self.reset()
            return False
        self._is_refused = session_id == _NO_SESSION
        if self._is_refused:
            self._session_id, self._epoch = _NO_SESSION, _FIRST_EPOCH
            return True
        self._session_id = session_id
        self._epoch = 1 if self._epoch == _HIGHEST_EPOCH else self._epoch + 1
        return True


def _forgotten_topics(forgotten: dict[PartitionKey, None]) -> list[ForgottenTopic]:
    topics: dict[TopicId, ForgottenTopic] = {}
    for topic_id, index in forgotten:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ForgottenTopic(topic_id=topic_id)
        topic.partitions.append(index)
    return list(topics.values())

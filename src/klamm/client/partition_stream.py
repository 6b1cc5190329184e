"""Streams one partition's batches, Fetch after Fetch, without the connection: builds requests, interprets responses.

`fetch.py` (blocking) and `aio_fetch.py` (asyncio) add the connections.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from klamm.client.cluster_view import ClusterView, error_code
from klamm.client.conversation import Pending
from klamm.client.errors import (
    ConnectionFailed,
    GaveUp,
    LogEndsEarly,
    OffsetOutOfRange,
    PartitionMissing,
    RequestRefused,
)
from klamm.client.fetch_exchange import (
    FIRST_VERSION_WITH_SESSIONS,
    FetchConnection,
    FetchedBatches,
    batches_of,
    fetch_version,
    partition_wanted,
    read_answer,
    send_fetch,
)
from klamm.client.fetch_session import WITHOUT_SESSION, FetchSession, SessionPlace
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_client import FetchResponse
from klamm.protocol.fetch_messages import FetchPartitionResponse, FetchTopic
from klamm.protocol.types import ZERO_TOPIC_ID, BrokerId, Offset, TopicPartition

__all__ = ["FetchUnderWay", "PartitionStream", "Passing"]

_ANSWERS_BEFORE_MISSING: Final = 4


class FetchUnderWay(NamedTuple):
    """A request in flight."""

    pending: Pending
    place: SessionPlace


class Passing(Exception):
    """A retriable error, after which the metadata are refreshed."""


class PartitionStream:
    """The stream of the batches that hold the offsets in [start_offset, end_offset) of one partition, with its
    position."""

    def __init__(
        self, cluster: ClusterView, topic_partition: TopicPartition, start_offset: Offset, end_offset: Offset
    ) -> None:
        self.topic_partition = topic_partition
        self._cluster = cluster
        self._position = start_offset
        self._end_offset = end_offset
        self._retries = Retries(cluster.config, f"fetch {topic_partition} from offset {start_offset}")
        self._answers_without_it = 0
        self._session = FetchSession()
        self._session_connection: FetchConnection | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the last offset was received."""
        return self._position >= self._end_offset

    def leader(self) -> BrokerId:
        """Returns the partition's leader. Raises `ConnectionFailed` if there is none."""
        leader = self._cluster.leader_of(self.topic_partition)
        if leader is None:
            raise ConnectionFailed(f"{self.topic_partition} has no leader, or does not exist")
        return leader.broker

    def send(self, connection: FetchConnection) -> FetchUnderWay:
        """Sends the request for the batches at the position. Raises `ConnectionFailed`."""
        if connection is not self._session_connection:
            # A session belongs to one broker. The old broker's session, if it still exists, is evicted there.
            self._session, self._session_connection = FetchSession(), connection
        name = self.topic_partition.topic
        topic = self._cluster.topic(name)
        topic_id = topic.topic_id if topic is not None else ZERO_TOPIC_ID
        version = fetch_version(connection, [topic_id])
        place = self._session.next_place() if version >= FIRST_VERSION_WITH_SESSIONS else WITHOUT_SESSION
        topics = [FetchTopic(name, topic_id, [partition_wanted(self._cluster, self.topic_partition, self._position)])]
        config = self._cluster.config
        pending = send_fetch(
            connection,
            version,
            config,
            topics,
            place,
            max_bytes=config.fetch_max_bytes,
            max_wait_ms=config.fetch_max_wait_ms,
        )
        return FetchUnderWay(pending, place)

    def received(
        self, connection: FetchConnection, under_way: FetchUnderWay, body: memoryview
    ) -> FetchedBatches | None:
        """Returns the whole batches of a response that reach the position; None if there are none.

        Raises `ConnectionFailed` for a malformed response, `Passing`, `OffsetOutOfRange`, `RequestRefused`.
        """
        answer = read_answer(connection, under_way.pending, body)
        code = error_code(answer.error_code)
        if self._session.answered(under_way.place, code, answer.session_id):
            raise Passing(code.name.upper())
        if code is not ErrorCode.NONE:
            raise RequestRefused(code, f"the broker at {connection.peer} refused to fetch")
        partition = self._partition_in(answer)
        if partition is None:
            if under_way.place.is_incremental:
                return None
            raise Passing(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name.upper())
        self._check(error_code(partition.error_code))
        fetched = batches_of(partition, self._position)
        if fetched is not None:
            self._position = fetched.next_offset
            self._retries.progressed()
        return fetched

    def _partition_in(self, answer: FetchResponse) -> FetchPartitionResponse | None:
        for topic in answer.topics:
            name = topic.name if topic.topic_id is None else self._cluster.name_of(topic.topic_id)
            if name == self.topic_partition.topic:
                for partition in topic.partitions:
                    if partition.index == self.topic_partition.partition:
                        return partition
        return None

    def _check(self, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            return
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetOutOfRange(self.topic_partition, self._position)
        # Kafka's consumer retries UNKNOWN_SERVER_ERROR as well (FetchCollector.java).
        if not code.retriable and code is not ErrorCode.UNKNOWN_SERVER_ERROR:
            raise RequestRefused(code, f"the broker does not let {self.topic_partition} be fetched")
        raise Passing(code.name.upper())

    def resumed(self, connection: FetchConnection | None, under_way: FetchUnderWay | None) -> FetchUnderWay | None:
        """Restarts all timeouts when the caller wants the next part, so that its processing time does not count."""
        self._retries.progressed()
        if connection is None or under_way is None:
            return None
        return under_way._replace(pending=connection.renewed(under_way.pending))

    def pause_after(self, error: Exception) -> float:
        """Returns the seconds to wait before a refresh of the metadata and a retry. Raises `GaveUp`."""
        return self._retries.next_pause_s(error)

    def check_exists(self) -> None:
        """Raises `PartitionMissing` if the partition is missing after four refreshes in a row; call it after each
        refresh."""
        # Right after a topic's creation, some brokers do not know it yet; so a single response is not trusted.
        self._answers_without_it = 0 if self._cluster.has(self.topic_partition) else self._answers_without_it + 1
        if self._answers_without_it >= _ANSWERS_BEFORE_MISSING:
            raise PartitionMissing(f"{self.topic_partition} does not exist: was the topic deleted?")

    def pause_at_end(self) -> float:
        """Returns the seconds to wait after a response without records. Raises `LogEndsEarly` after the time limit."""
        try:
            return self._retries.next_pause_s("no more records came")
        except GaveUp as error:
            raise LogEndsEarly(
                f"{self.topic_partition} ends at offset {self._position}, before {self._end_offset}"
            ) from error

    def close(self, connection: FetchConnection | None, under_way: FetchUnderWay | None) -> None:
        """Abandons the request in flight and closes the broker's session; ignores `ConnectionFailed`."""
        try:
            if connection is not None and under_way is not None:
                connection.abandon(under_way.pending)
            place = self._session.closing_place()
            session_connection = self._session_connection
            if place is not None and session_connection is not None:
                version = fetch_version(session_connection, [])
                config = self._cluster.config
                closing = send_fetch(
                    session_connection, version, config, [], place, max_bytes=config.fetch_max_bytes, max_wait_ms=0
                )
                session_connection.abandon(closing)
        except ConnectionFailed:
            pass

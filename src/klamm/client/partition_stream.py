"""A partition's batches, one Fetch after the other, without the connection: what to ask, and what an answer means.

`fetch.py` and `aio_fetch.py` are its faces, blocking and for asyncio.
Version notes: 4 brought batches of magic 2 and the isolation level, 7 sessions, 9 the leader epoch, 13 topic ids
instead of names (KIP-516).
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

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
from klamm.client.fetch_session import WITHOUT_SESSION, FetchSession, SessionPlace
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode, MalformedMessage
from klamm.protocol.fetch_client import FetchResponse, decode_fetch_response, encode_fetch_request
from klamm.protocol.fetch_messages import FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic
from klamm.protocol.record_scanner import batches_from
from klamm.protocol.types import ZERO_TOPIC_ID, BrokerId, Offset, TopicPartition

__all__ = ["AbortedTransaction", "FetchConnection", "FetchedBatches", "FetchUnderWay", "PartitionStream", "Passing"]

_FETCH: Final = 1
_CONSUMER: Final = -1
_LOWEST: Final = 4
_HIGHEST: Final = 18
_HIGHEST_WITH_NAMES: Final = 12
_FLEXIBLE_FROM: Final = 12
_SESSIONS_FROM: Final = 7
_ANSWERS_BEFORE_MISSING: Final = 4
_ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}

AbortedTransaction = tuple[int, int]
"""Producer id, and the first offset of the transaction that it aborted."""


class FetchedBatches(NamedTuple):
    """Whole batches in the order of their offsets; the first may begin before the offset that was asked for."""

    records: memoryview
    """The batches, one behind the other, as they came from the socket."""
    aborted_transactions: tuple[AbortedTransaction, ...]
    next_offset: Offset
    """The first offset behind the batches."""


class FetchUnderWay(NamedTuple):
    """A request that was sent."""

    pending: Pending
    place: SessionPlace


class Passing(Exception):
    """An error code that tells of a change which new metadata will show."""


class FetchConnection(Protocol):
    """What both kinds of connection have in common."""

    peer: str

    def version_of(self, api_key: int, name: str, lowest: int, highest: int) -> int:
        """The highest version of an API that both sides know."""

    def send_body(self, api_key: int, version: int, body: bytes | bytearray, *, flexible: bool) -> Pending:
        """Sends a request body."""

    def abandon(self, pending: Pending) -> None:
        """Forgets a request whose answer nobody wants any more."""

    def renewed(self, pending: Pending) -> Pending:
        """The same request, whose time begins anew."""

    def close(self) -> None:
        """Closes the connection."""


class PartitionStream:
    """The batches that hold the offsets in [start_offset, end_offset) of one partition; how far they have come."""

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
        """Whether the last offset has come."""
        return self._position >= self._end_offset

    def leader(self) -> BrokerId:
        """Whom to ask. Raises `ConnectionFailed` if there is nobody."""
        leader = self._cluster.leader_of(self.topic_partition)
        if leader is None:
            raise ConnectionFailed(f"{self.topic_partition} has no leader, or does not exist")
        return leader.broker

    def send(self, connection: FetchConnection) -> FetchUnderWay:
        """Asks for what follows. Raises `ConnectionFailed`."""
        if connection is not self._session_connection:
            # Sessions belong to a broker, and die with it; the old one's, if it still is, goes by itself.
            self._session, self._session_connection = FetchSession(), connection
        topic_partition = self.topic_partition
        topic = self._cluster.topic(topic_partition.topic)
        leader = self._cluster.leader_of(topic_partition)
        topic_id = topic.topic_id if topic is not None else ZERO_TOPIC_ID
        partition = FetchPartition(
            index=topic_partition.partition,
            current_leader_epoch=-1 if leader is None else leader.epoch,
            fetch_offset=self._position,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=self._cluster.config.max_partition_fetch_bytes,
        )
        highest = _HIGHEST if topic_id != ZERO_TOPIC_ID else _HIGHEST_WITH_NAMES
        version = connection.version_of(_FETCH, "Fetch", _LOWEST, highest)
        place = self._session.next_place() if version >= _SESSIONS_FROM else WITHOUT_SESSION
        topics = [FetchTopic(topic_partition.topic, topic_id, [partition])]
        return FetchUnderWay(self._send(connection, version, place, topics), place)

    def _send(
        self, connection: FetchConnection, version: int, place: SessionPlace, topics: list[FetchTopic]
    ) -> Pending:
        config = self._cluster.config
        request = FetchRequest(
            replica_id=_CONSUMER,
            max_wait_ms=config.fetch_max_wait_ms if topics else 0,
            min_bytes=config.fetch_min_bytes,
            max_bytes=config.fetch_max_bytes,
            isolation_level=_ISOLATION[config.isolation_level],
            session_id=place.session_id,
            session_epoch=place.epoch,
            topics=topics,
            forgotten=[],
        )
        body = encode_fetch_request(version, request)
        return connection.send_body(_FETCH, version, body, flexible=version >= _FLEXIBLE_FROM)

    def received(
        self, connection: FetchConnection, under_way: FetchUnderWay, body: memoryview
    ) -> FetchedBatches | None:
        """The whole batches of an answer; None if it has none of use.

        Raises `ConnectionFailed` for an answer that can't be read, `Passing`, `OffsetOutOfRange`, `RequestRefused`.
        """
        try:
            answer = decode_fetch_response(under_way.pending.version, body, 0)
        except MalformedMessage as error:
            connection.close()
            raise ConnectionFailed(f"the broker at {connection.peer} sent a malformed Fetch answer: {error}") from error
        code = error_code(answer.error_code)
        if self._session.answered(under_way.place, code, answer.session_id):
            raise Passing(code.name.upper())
        if code is not ErrorCode.none:
            raise RequestRefused(code, f"the broker at {connection.peer} refused to fetch")
        partition = self._partition_in(answer)
        if partition is None:
            if under_way.place.is_incremental:
                return None
            raise Passing(ErrorCode.unknown_topic_or_partition.name.upper())
        self._check(error_code(partition.error_code))
        records = partition.records if isinstance(partition.records, memoryview) else memoryview(b"")
        run = batches_from(records, self._position)
        if run is None:
            return None
        self._position = run.next_offset
        self._retries.progressed()
        return FetchedBatches(run.records, tuple(partition.aborted_transactions or ()), run.next_offset)

    def _partition_in(self, answer: FetchResponse) -> FetchPartitionResponse | None:
        for topic in answer.topics:
            name = topic.name if topic.topic_id is None else self._cluster.name_of(topic.topic_id)
            if name == self.topic_partition.topic:
                for partition in topic.partitions:
                    if partition.index == self.topic_partition.partition:
                        return partition
        return None

    def _check(self, code: ErrorCode) -> None:
        if code is ErrorCode.none:
            return
        if code is ErrorCode.offset_out_of_range:
            raise OffsetOutOfRange(self.topic_partition, self._position)
        # Kafka's consumer takes the error without a name for one that passes (FetchCollector.java).
        if not code.retriable and code is not ErrorCode.unknown_server_error:
            raise RequestRefused(code, f"the broker does not let {self.topic_partition} be fetched")
        raise Passing(code.name.upper())

    def resumed(self, connection: FetchConnection | None, under_way: FetchUnderWay | None) -> FetchUnderWay | None:
        """Tells that the caller wants the next part: no timeout counts the time that it took over the last one."""
        self._retries.progressed()
        if connection is None or under_way is None:
            return None
        return under_way._replace(pending=connection.renewed(under_way.pending))

    def pause_after(self, error: Exception) -> float:
        """How many seconds to rest before metadata is refreshed and the same is asked again. Raises `GaveUp`."""
        return self._retries.next_pause_s(error)

    def check_exists(self) -> None:
        """After a refresh: raises `PartitionMissing` if the partition is not there, time after time."""
        # Right after a topic was made, not every broker knows of it; so one such answer is not believed.
        self._answers_without_it = 0 if self._cluster.has(self.topic_partition) else self._answers_without_it + 1
        if self._answers_without_it >= _ANSWERS_BEFORE_MISSING:
            raise PartitionMissing(f"{self.topic_partition} does not exist: was the topic deleted?")

    def pause_at_end(self) -> float:
        """How many seconds to rest when no more records came. Raises `LogEndsEarly` when none will."""
        try:
            return self._retries.next_pause_s("no more records came")
        except GaveUp as error:
            raise LogEndsEarly(
                f"{self.topic_partition} ends at offset {self._position}, before {self._end_offset}"
            ) from error

    def close(self, connection: FetchConnection | None, under_way: FetchUnderWay | None) -> None:
        """Forgets what is under way, and gives the broker its session back; raises nothing."""
        try:
            if connection is not None and under_way is not None:
                connection.abandon(under_way.pending)
            place = self._session.closing_place()
            session_connection = self._session_connection
            if place is not None and session_connection is not None:
                version = session_connection.version_of(_FETCH, "Fetch", _LOWEST, _HIGHEST)
                session_connection.abandon(self._send(session_connection, version, place, []))
        except ConnectionFailed:
            pass

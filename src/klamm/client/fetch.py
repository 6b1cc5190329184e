"""Record batches as they lie in the log: the API Fetch, asked by a consumer without a session.

Version notes: 4 brought batches of magic 2 and the isolation level, 9 the leader epoch, 13 topic ids instead of names
(KIP-516).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.client.cluster import Cluster
from klamm.client.cluster_view import ClusterView, error_code
from klamm.client.connection import Connection, Pending
from klamm.client.errors import (
    ConnectionFailed,
    GaveUp,
    LogEndsEarly,
    OffsetOutOfRange,
    PartitionMissing,
    RequestRefused,
)
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode, MalformedMessage
from klamm.protocol.fetch_client import decode_fetch_response, encode_fetch_request
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.record_scanner import batches_from
from klamm.protocol.types import ZERO_TOPIC_ID, Offset, PartitionIndex, TopicPartition

if TYPE_CHECKING:
    from klamm.client.aio import AsyncConnection

__all__ = ["AbortedTransaction", "FetchedBatches", "FetchedPartition", "receive_fetch", "send_fetch", "stream_batches"]

_FETCH: Final = 1
_CONSUMER: Final = -1
_LOWEST: Final = 4
_HIGHEST: Final = 18
_HIGHEST_WITH_NAMES: Final = 12
_WITHOUT_SESSION: Final = -1
_ATTEMPTS_BEFORE_MISSING: Final = 4
_ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}

AbortedTransaction = tuple[int, int]
"""Producer id, and the first offset of the transaction that it aborted."""


class FetchedPartition(NamedTuple):
    """What a leader answered for one partition."""

    error_code: ErrorCode
    high_watermark: Offset
    last_stable_offset: Offset
    log_start_offset: Offset
    aborted_transactions: tuple[AbortedTransaction, ...]
    records: memoryview


class FetchedBatches(NamedTuple):
    """Whole batches in the order of their offsets; the first may begin before the offset that was asked for."""

    records: memoryview
    aborted_transactions: tuple[AbortedTransaction, ...]
    next_offset: Offset
    """The first offset behind the batches."""


def send_fetch(
    cluster: ClusterView, connection: Connection | AsyncConnection, positions: Mapping[TopicPartition, Offset]
) -> Pending:
    """Asks one broker for these partitions from these offsets on; it must lead them. Raises `ConnectionFailed`."""
    config = cluster.config
    topics: dict[str, FetchTopic] = {}
    ids_known = True
    for topic_partition, offset in positions.items():
        metadata = cluster.topic(topic_partition.topic)
        leader = cluster.leader_of(topic_partition)
        topic_id = metadata.topic_id if metadata is not None else ZERO_TOPIC_ID
        ids_known = ids_known and topic_id != ZERO_TOPIC_ID
        topic = topics.setdefault(topic_partition.topic, FetchTopic(topic_partition.topic, topic_id, []))
        topic.partitions.append(
            FetchPartition(
                index=topic_partition.partition,
                current_leader_epoch=-1 if leader is None else leader.epoch,
                fetch_offset=offset,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=config.max_partition_fetch_bytes,
            )
        )
    version = connection.version_of(_FETCH, "Fetch", _LOWEST, _HIGHEST if ids_known else _HIGHEST_WITH_NAMES)
    request = FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=config.fetch_max_bytes,
        isolation_level=_ISOLATION[config.isolation_level],
        session_id=0,
        session_epoch=_WITHOUT_SESSION,
        topics=list(topics.values()),
        forgotten=[],
    )
    return connection.send_body(_FETCH, version, encode_fetch_request(version, request), flexible=version >= 12)


def receive_fetch(cluster: Cluster, connection: Connection, pending: Pending) -> dict[TopicPartition, FetchedPartition]:
    """The answer to `send_fetch`; its records are views of what came from the socket.

    An error that concerns the whole request is answered for no partition but raised: `ConnectionFailed` (also for an
    answer that can't be read), `RequestRefused`.
    """
    return read_fetch(cluster, connection, pending, connection.receive_body(pending))


def read_fetch(
    cluster: ClusterView, connection: Connection | AsyncConnection, pending: Pending, body: memoryview
) -> dict[TopicPartition, FetchedPartition]:
    """What `receive_fetch` says of an answer's body that is there already."""
    try:
        answer = decode_fetch_response(pending.version, body, 0)
    except MalformedMessage as error:
        connection.close()
        raise ConnectionFailed(f"the broker at {connection.peer} sent a malformed Fetch answer: {error}") from error
    if answer.error_code != ErrorCode.none:
        raise RequestRefused(error_code(answer.error_code), f"the broker at {connection.peer} refused to fetch")
    found = {}
    for topic in answer.topics:
        name = topic.name if topic.topic_id is None else cluster.name_of(topic.topic_id)
        if name is None:
            continue
        for partition in topic.partitions:
            found[TopicPartition(name, PartitionIndex(partition.index))] = FetchedPartition(
                error_code(partition.error_code),
                Offset(partition.high_watermark),
                Offset(partition.last_stable_offset),
                Offset(partition.log_start_offset),
                tuple(partition.aborted_transactions or ()),
                partition.records if isinstance(partition.records, memoryview) else memoryview(b""),
            )
    return found


def stream_batches(
    cluster: Cluster, topic_partition: TopicPartition, start_offset: Offset, end_offset: Offset
) -> Generator[FetchedBatches, None, None]:
    """The batches that hold the offsets in [start_offset, end_offset), all of them, as they come.

    The request for what follows is under way before a part is handed out, so that the broker works while the caller
    does. Leader changes and broken connections are followed; control batches and those of aborted transactions are in
    what is handed out.
    Raises `OffsetOutOfRange` when the next offset is not in the log, `PartitionMissing` when the partition is not
    there, `LogEndsEarly` when it ends before `end_offset` and does not grow for `default.api.timeout.ms`, `GaveUp` when
    it stays unreachable for that long, `RequestRefused` for other errors.
    """
    position = start_offset
    retries = Retries(cluster.config, f"fetch {topic_partition} from offset {position}")
    under_way: tuple[Connection, Pending] | None = None
    try:
        while position < end_offset:
            try:
                if under_way is None:
                    under_way = _send(cluster, topic_partition, position)
                (connection, pending), under_way = under_way, None
                fetched = receive_fetch(cluster, connection, pending).get(topic_partition)
                part = _whole_batches(topic_partition, fetched, position)
            except (ConnectionFailed, _Passing) as error:
                _recover(cluster, topic_partition, retries, error)
                continue
            if part is None:
                try:
                    retries.pause("no more records came")
                except GaveUp as error:
                    raise LogEndsEarly(f"{topic_partition} ends at offset {position}, before {end_offset}") from error
                continue
            position = part.next_offset
            retries.progressed()
            if position < end_offset:
                under_way = _send_ahead(cluster, topic_partition, position)
            yield part
    finally:
        if under_way is not None:
            under_way[0].abandon(under_way[1])


class _Passing(Exception):
    """An error code that tells of a change which new metadata will show."""


def _recover(cluster: Cluster, topic_partition: TopicPartition, retries: Retries, error: Exception) -> None:
    retries.pause(error)
    cluster.refresh([topic_partition.topic])
    # Right after a topic was made, not every broker knows of it; so one such answer is not believed.
    if not cluster.has(topic_partition) and retries.attempts >= _ATTEMPTS_BEFORE_MISSING:
        raise PartitionMissing(f"{topic_partition} does not exist: was the topic deleted?")


def _send(cluster: Cluster, topic_partition: TopicPartition, offset: Offset) -> tuple[Connection, Pending]:
    cluster.ensure([topic_partition.topic])
    leader = cluster.leader_of(topic_partition)
    if leader is None:
        raise ConnectionFailed(f"{topic_partition} has no leader, or does not exist")
    connection = cluster.connection_to(leader.broker)
    return connection, send_fetch(cluster, connection, {topic_partition: offset})


def _send_ahead(cluster: Cluster, topic_partition: TopicPartition, offset: Offset) -> tuple[Connection, Pending] | None:
    """Like `_send`, for a part that nobody waits for yet: a failure shows when somebody does."""
    try:
        return _send(cluster, topic_partition, offset)
    except ConnectionFailed:
        return None


def _whole_batches(
    topic_partition: TopicPartition, fetched: FetchedPartition | None, position: Offset
) -> FetchedBatches | None:
    """The whole batches of an answer that reach `position`; None if there are none."""
    code = ErrorCode.unknown_topic_or_partition if fetched is None else fetched.error_code
    if fetched is None or code is not ErrorCode.none:
        if code is ErrorCode.offset_out_of_range:
            raise OffsetOutOfRange(topic_partition, position)
        if not code.retriable:
            raise RequestRefused(code, f"the broker does not let {topic_partition} be fetched")
        raise _Passing(code.name.upper())
    run = batches_from(fetched.records, position)
    return None if run is None else FetchedBatches(run.records, fetched.aborted_transactions, run.next_offset)

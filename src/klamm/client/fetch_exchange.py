"""One Fetch: encodes the request and decodes the response. The streams decide what to fetch and interpret the result.

Version notes: 4 brought batches of magic 2 and the isolation level, 7 sessions, 9 the leader epoch, 13 topic ids
instead of names (KIP-516).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple, Protocol

from klamm.client.cluster_view import ClusterView
from klamm.client.config import ClientConfig
from klamm.client.conversation import Pending
from klamm.client.errors import ConnectionFailed
from klamm.client.fetch_session import SessionPlace
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.fetch_client import FetchResponse, decode_fetch_response, encode_fetch_request
from klamm.protocol.fetch_messages import FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic
from klamm.protocol.record_scanner import batches_from
from klamm.protocol.types import ZERO_TOPIC_ID, Offset, TopicId, TopicPartition

__all__ = [
    "FIRST_VERSION_WITH_SESSIONS",
    "FIRST_VERSION_WITH_TOPIC_IDS",
    "AbortedTransaction",
    "FetchConnection",
    "FetchedBatches",
    "batches_of",
    "fetch_version",
    "partition_wanted",
    "read_answer",
    "send_fetch",
]

FIRST_VERSION_WITH_SESSIONS: Final = 7
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
_FETCH: Final = 1
_CONSUMER: Final = -1
_LOWEST: Final = 4
_HIGHEST: Final = 18
_HIGHEST_WITH_NAMES: Final = FIRST_VERSION_WITH_TOPIC_IDS - 1
_FLEXIBLE_FROM: Final = 12
_ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}

AbortedTransaction = tuple[int, int]
"""Producer id, and the first offset of the transaction that it aborted."""


class FetchedBatches(NamedTuple):
    """Whole batches in the order of their offsets; the first may begin before the requested offset."""

    records: memoryview
    """The concatenated batches, as received from the socket."""
    aborted_transactions: tuple[AbortedTransaction, ...]
    next_offset: Offset
    """The first offset after the batches."""


class FetchConnection(Protocol):
    """The common interface of the blocking and the asyncio connection."""

    peer: str

    def version_of(self, api_key: int, name: str, lowest: int, highest: int) -> int:
        """Returns the highest API version that both sides know."""

    def send_body(self, api_key: int, version: int, body: bytes | bytearray, *, flexible: bool) -> Pending:
        """Sends a request body."""

    def abandon(self, pending: Pending) -> None:
        """Forgets a request; its response is dropped when it arrives."""

    def renewed(self, pending: Pending) -> Pending:
        """Returns the request with a new deadline."""

    def close(self) -> None:
        """Closes the connection."""


def fetch_version(connection: FetchConnection, topic_ids: Collection[TopicId]) -> int:
    """Returns the version of a request for these topics: one with names, if a topic has no id."""
    highest = _HIGHEST_WITH_NAMES if ZERO_TOPIC_ID in topic_ids else _HIGHEST
    return connection.version_of(_FETCH, "Fetch", _LOWEST, highest)


def partition_wanted(cluster: ClusterView, topic_partition: TopicPartition, position: Offset) -> FetchPartition:
    """Returns the request's entry for a partition, from this offset on."""
    leader = cluster.leader_of(topic_partition)
    return FetchPartition(
        index=topic_partition.partition,
        current_leader_epoch=-1 if leader is None else leader.epoch,
        fetch_offset=position,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=cluster.config.max_partition_fetch_bytes,
    )


def send_fetch(
    connection: FetchConnection,
    version: int,
    config: ClientConfig,
    topics: list[FetchTopic],
    place: SessionPlace,
    *,
    max_bytes: int,
    max_wait_ms: int,
) -> Pending:
    """Sends a request. Raises `ConnectionFailed`."""
    request = FetchRequest(
        replica_id=_CONSUMER,
        max_wait_ms=max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=_ISOLATION[config.isolation_level],
        session_id=place.session_id,
        session_epoch=place.epoch,
        topics=topics,
        forgotten=[],
    )
    body = encode_fetch_request(version, request)
    return connection.send_body(_FETCH, version, body, flexible=version >= _FLEXIBLE_FROM)


def read_answer(connection: FetchConnection, pending: Pending, body: memoryview) -> FetchResponse:
    """Decodes a response. Raises `ConnectionFailed` and closes the connection if it is malformed."""
    try:
        return decode_fetch_response(pending.version, body, 0)
    except MalformedMessage as error:
        connection.close()
        raise ConnectionFailed(f"the broker at {connection.peer} sent a malformed Fetch answer: {error}") from error


def batches_of(partition: FetchPartitionResponse, position: Offset) -> FetchedBatches | None:
    """Returns the whole batches of a partition that reach this offset; None if there are none. Raises `KafkaError`."""
    records = partition.records if isinstance(partition.records, memoryview) else memoryview(b"")
    run = batches_from(records, position)
    if run is None:
        return None
    return FetchedBatches(run.records, tuple(partition.aborted_transactions or ()), run.next_offset)

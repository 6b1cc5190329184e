"""Fetch requests and responses as values, for the codecs of the broker and of the client.

These codecs are handwritten for speed, because consumers and followers read with Fetch. In versions with topic ids the
name is None; in versions with names the id is None. Fields that a version lacks have Kafka's defaults.

4: isolation level. 5: log start offset. 7: fetch sessions (KIP-227). 9: current leader epoch (KIP-320). 10: zstd
allowed. 11: rack, preferred read replica (KIP-392). 12: flexible, last fetched epoch, diverging epoch (KIP-595).
13: topic ids instead of names (KIP-516). 15: replica state instead of the replica id (KIP-903). 16: node endpoints in
the response (KIP-951). 17: replica directory id (KIP-853). 18: the follower's high watermark (KIP-1166).
Layout: FetchRequest.json and FetchResponse.json of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from klamm.protocol.types import ZERO_TOPIC_ID, TopicId

__all__ = [
    "Buffers",
    "FetchPartition",
    "FetchPartitionResponse",
    "FetchRequest",
    "FetchTopic",
    "FetchTopicResponse",
    "ForgottenTopic",
    "NO_HIGH_WATERMARK",
    "StoredRecords",
]

NO_HIGH_WATERMARK: Final = 2**63 - 1
"""The default for a follower that does not send its high watermark."""


class StoredRecords(Protocol):
    """Records in a file. The encoder puts this object into the response; `broker/network/file_sending.py` sends it."""

    def __len__(self) -> int:
        """Returns the size of the records in bytes."""


Buffers: TypeAlias = list[bytes | memoryview]
"""Parts of a message, to be sent one after the other."""


class FetchPartition(NamedTuple):
    """A request for one partition; fields that the version lacks have Kafka's defaults."""

    index: int  # type: ignore[assignment]  # Kafka's name, and tuple.index has no use here
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: bytes = ZERO_TOPIC_ID
    high_watermark: int = NO_HIGH_WATERMARK


class FetchTopic(NamedTuple):
    """A request for one topic, given by name, or from version 13 by id."""

    name: str | None
    topic_id: TopicId | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """Partitions that leave the fetch session."""

    name: str | None
    topic_id: TopicId | None
    partitions: list[int]


class FetchRequest(NamedTuple):
    """A Fetch request; `replica_id` is -1 for consumers, `session_epoch` -1 for a fetch without a session."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str = ""
    cluster_id: str | None = None
    replica_epoch: int = -1


class FetchPartitionResponse(NamedTuple):
    """The response for one partition; the defaults are the values that accompany an error.

    `aborted_transactions` are pairs of producer id and first offset, None for a read of uncommitted records.
    `diverging_epoch` is epoch and end offset, `current_leader` leader id and epoch, `snapshot_id` end offset and epoch.
    """

    index: int  # type: ignore[assignment]  # as in FetchPartition
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    records: bytes | memoryview | StoredRecords | Buffers | None = b""
    diverging_epoch: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None
    snapshot_id: tuple[int, int] | None = None


class FetchTopicResponse(NamedTuple):
    """The response for one topic, with the name or id of the request."""

    name: str | None
    topic_id: TopicId | None
    partitions: Sequence[FetchPartitionResponse]

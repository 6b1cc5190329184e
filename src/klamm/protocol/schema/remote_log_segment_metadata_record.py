# RemoteLogSegmentMetadataRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class RemoteLogSegmentMetadataRecord(Message):
    __slots__ = ("remote_log_segment_id", "start_offset", "end_offset", "broker_id", "max_timestamp_ms", "event_timestamp_ms", "segment_leader_epochs", "segment_size_in_bytes", "custom_metadata", "remote_log_segment_state", "txn_index_empty")
    NAME = "RemoteLogSegmentMetadataRecord"
    API_KEY = 0
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("remote_log_segment_id", "RemoteLogSegmentIdEntry", (0, 32767), None, None, None, (), False),
        ("start_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("end_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("broker_id", "int32", (0, 32767), None, None, None, 0, False),
        ("max_timestamp_ms", "int64", (0, 32767), None, None, None, 0, False),
        ("event_timestamp_ms", "int64", (0, 32767), None, None, None, 0, False),
        ("segment_leader_epochs", "[]SegmentLeaderEpochEntry", (0, 32767), None, None, None, (), False),
        ("segment_size_in_bytes", "int32", (0, 32767), None, None, None, 0, False),
        ("custom_metadata", "bytes", (0, 32767), (0, 32767), None, None, None, False),
        ("remote_log_segment_state", "int8", (0, 32767), None, None, None, 0, False),
        ("txn_index_empty", "bool", (0, 32767), None, 0, (0, 32767), False, False),
    )

    def __init__(
        self,
        *,
        remote_log_segment_id: RemoteLogSegmentIdEntry = NEW,
        start_offset: int = 0,
        end_offset: int = 0,
        broker_id: int = 0,
        max_timestamp_ms: int = 0,
        event_timestamp_ms: int = 0,
        segment_leader_epochs: list[SegmentLeaderEpochEntry] = NEW,
        segment_size_in_bytes: int = 0,
        custom_metadata: bytes | None = None,
        remote_log_segment_state: int = 0,
        txn_index_empty: bool = False,
    ) -> None:
        self.remote_log_segment_id = RemoteLogSegmentIdEntry() if remote_log_segment_id is NEW else remote_log_segment_id
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.broker_id = broker_id
        self.max_timestamp_ms = max_timestamp_ms
        self.event_timestamp_ms = event_timestamp_ms
        self.segment_leader_epochs = [] if segment_leader_epochs is NEW else segment_leader_epochs
        self.segment_size_in_bytes = segment_size_in_bytes
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state
        self.txn_index_empty = txn_index_empty


class RemoteLogSegmentIdEntry(Message):
    __slots__ = ("topic_id_partition", "id")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id_partition", "TopicIdPartitionEntry", (0, 32767), None, None, None, (), False),
        ("id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
    )

    def __init__(
        self,
        *,
        topic_id_partition: TopicIdPartitionEntry = NEW,
        id: bytes = ZERO_UUID,
    ) -> None:
        self.topic_id_partition = TopicIdPartitionEntry() if topic_id_partition is NEW else topic_id_partition
        self.id = id


class TopicIdPartitionEntry(Message):
    __slots__ = ("name", "id", "partition")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("partition", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        id: bytes = ZERO_UUID,
        partition: int = 0,
    ) -> None:
        self.name = name
        self.id = id
        self.partition = partition


class SegmentLeaderEpochEntry(Message):
    __slots__ = ("leader_epoch", "offset")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("offset", "int64", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        leader_epoch: int = 0,
        offset: int = 0,
    ) -> None:
        self.leader_epoch = leader_epoch
        self.offset = offset

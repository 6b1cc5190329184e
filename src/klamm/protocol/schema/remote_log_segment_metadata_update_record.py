# RemoteLogSegmentMetadataUpdateRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class RemoteLogSegmentMetadataUpdateRecord(Message):
    __slots__ = ("remote_log_segment_id", "broker_id", "event_timestamp_ms", "custom_metadata", "remote_log_segment_state")
    NAME = "RemoteLogSegmentMetadataUpdateRecord"
    API_KEY = 1
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("remote_log_segment_id", "RemoteLogSegmentIdEntry", (0, 32767), None, None, None, (), False),
        ("broker_id", "int32", (0, 32767), None, None, None, 0, False),
        ("event_timestamp_ms", "int64", (0, 32767), None, None, None, 0, False),
        ("custom_metadata", "bytes", (0, 32767), (0, 32767), None, None, None, False),
        ("remote_log_segment_state", "int8", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        remote_log_segment_id: RemoteLogSegmentIdEntry = NEW,
        broker_id: int = 0,
        event_timestamp_ms: int = 0,
        custom_metadata: bytes | None = None,
        remote_log_segment_state: int = 0,
    ) -> None:
        self.remote_log_segment_id = RemoteLogSegmentIdEntry() if remote_log_segment_id is NEW else remote_log_segment_id
        self.broker_id = broker_id
        self.event_timestamp_ms = event_timestamp_ms
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state


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

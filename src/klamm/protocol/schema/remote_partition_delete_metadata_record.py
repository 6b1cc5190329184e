# RemotePartitionDeleteMetadataRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class RemotePartitionDeleteMetadataRecord(Message):
    __slots__ = ("topic_id_partition", "broker_id", "event_timestamp_ms", "remote_partition_delete_state")
    NAME = "RemotePartitionDeleteMetadataRecord"
    API_KEY = 2
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id_partition", "TopicIdPartitionEntry", (0, 32767), None, None, None, (), False),
        ("broker_id", "int32", (0, 32767), None, None, None, 0, False),
        ("event_timestamp_ms", "int64", (0, 32767), None, None, None, 0, False),
        ("remote_partition_delete_state", "int8", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        topic_id_partition: TopicIdPartitionEntry = NEW,
        broker_id: int = 0,
        event_timestamp_ms: int = 0,
        remote_partition_delete_state: int = 0,
    ) -> None:
        self.topic_id_partition = TopicIdPartitionEntry() if topic_id_partition is NEW else topic_id_partition
        self.broker_id = broker_id
        self.event_timestamp_ms = event_timestamp_ms
        self.remote_partition_delete_state = remote_partition_delete_state


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

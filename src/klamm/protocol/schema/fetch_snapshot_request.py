# FetchSnapshotRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class FetchSnapshotRequest(Message):
    __slots__ = ("cluster_id", "replica_id", "max_bytes", "topics")
    NAME = "FetchSnapshotRequest"
    API_KEY = 59
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), 0, (0, 32767), None, False),
        ("replica_id", "int32", (0, 32767), None, None, None, -1, False),
        ("max_bytes", "int32", (0, 32767), None, None, None, 2147483647, False),
        ("topics", "[]TopicSnapshot", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 2147483647,
        topics: list[TopicSnapshot] = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics = [] if topics is NEW else topics


class TopicSnapshot(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]PartitionSnapshot", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[PartitionSnapshot] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class PartitionSnapshot(Message):
    __slots__ = ("partition", "current_leader_epoch", "snapshot_id", "position", "replica_directory_id")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, None, 0, False),
        ("current_leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("snapshot_id", "SnapshotId", (0, 32767), None, None, None, (), False),
        ("position", "int64", (0, 32767), None, None, None, 0, False),
        ("replica_directory_id", "uuid", (1, 32767), None, 0, (1, 32767), ZERO_UUID, True),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = 0,
        snapshot_id: SnapshotId = NEW,
        position: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.snapshot_id = SnapshotId() if snapshot_id is NEW else snapshot_id
        self.position = position
        self.replica_directory_id = replica_directory_id


class SnapshotId(Message):
    __slots__ = ("end_offset", "epoch")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("end_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("epoch", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        end_offset: int = 0,
        epoch: int = 0,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch

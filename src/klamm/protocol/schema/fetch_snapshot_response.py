# FetchSnapshotResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class FetchSnapshotResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "topics", "node_endpoints")
    NAME = "FetchSnapshotResponse"
    API_KEY = 59
    TYPE = "response"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("topics", "[]TopicSnapshot", (0, 32767), None, None, None, (), False),
        ("node_endpoints", "[]NodeEndpoint", (1, 32767), None, 0, (1, 32767), (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[TopicSnapshot] = NEW,
        node_endpoints: list[NodeEndpoint] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = [] if topics is NEW else topics
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


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
    __slots__ = ("index", "error_code", "snapshot_id", "current_leader", "size", "position", "unaligned_records")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("index", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("snapshot_id", "SnapshotId", (0, 32767), None, None, None, (), False),
        ("current_leader", "LeaderIdAndEpoch", (0, 32767), None, 0, (0, 32767), (), False),
        ("size", "int64", (0, 32767), None, None, None, 0, False),
        ("position", "int64", (0, 32767), None, None, None, 0, False),
        ("unaligned_records", "records", (0, 32767), None, None, None, None, False),
    )

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        snapshot_id: SnapshotId = NEW,
        current_leader: LeaderIdAndEpoch = NEW,
        size: int = 0,
        position: int = 0,
        unaligned_records: bytes | memoryview | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.snapshot_id = SnapshotId() if snapshot_id is NEW else snapshot_id
        self.current_leader = LeaderIdAndEpoch() if current_leader is NEW else current_leader
        self.size = size
        self.position = position
        self.unaligned_records = unaligned_records


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


class LeaderIdAndEpoch(Message):
    __slots__ = ("leader_id", "leader_epoch")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("leader_id", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class NodeEndpoint(Message):
    __slots__ = ("node_id", "host", "port")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("node_id", "int32", (1, 32767), None, None, None, 0, False),
        ("host", "string", (1, 32767), None, None, None, "", False),
        ("port", "uint16", (1, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port

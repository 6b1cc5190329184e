# BeginQuorumEpochRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class BeginQuorumEpochRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "topics", "leader_endpoints")
    NAME = "BeginQuorumEpochRequest"
    API_KEY = 53
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("voter_id", "int32", (1, 32767), None, None, None, -1, True),
        ("topics", "[]TopicData", (0, 32767), None, None, None, (), False),
        ("leader_endpoints", "[]LeaderEndpoint", (1, 32767), None, None, None, (), True),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[TopicData] = NEW,
        leader_endpoints: list[LeaderEndpoint] = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is NEW else topics
        self.leader_endpoints = [] if leader_endpoints is NEW else leader_endpoints


class TopicData(Message):
    __slots__ = ("topic_name", "partitions")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]PartitionData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[PartitionData] = NEW,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class PartitionData(Message):
    __slots__ = ("partition_index", "voter_directory_id", "leader_id", "leader_epoch")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("voter_directory_id", "uuid", (1, 32767), None, None, None, ZERO_UUID, True),
        ("leader_id", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.voter_directory_id = voter_directory_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class LeaderEndpoint(Message):
    __slots__ = ("name", "host", "port")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("name", "string", (1, 32767), None, None, None, "", False),
        ("host", "string", (1, 32767), None, None, None, "", False),
        ("port", "uint16", (1, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port

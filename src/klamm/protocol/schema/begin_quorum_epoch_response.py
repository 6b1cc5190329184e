# BeginQuorumEpochResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class BeginQuorumEpochResponse(Message):
    __slots__ = ("error_code", "topics", "node_endpoints")
    NAME = "BeginQuorumEpochResponse"
    API_KEY = 53
    TYPE = "response"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("topics", "[]TopicData", (0, 32767), None, None, None, (), False),
        ("node_endpoints", "[]NodeEndpoint", (1, 32767), None, 0, (1, 32767), (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        topics: list[TopicData] = NEW,
        node_endpoints: list[NodeEndpoint] = NEW,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is NEW else topics
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


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
    __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("leader_id", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class NodeEndpoint(Message):
    __slots__ = ("node_id", "host", "port")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
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

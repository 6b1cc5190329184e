# MetadataResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class MetadataResponse(Message):
    __slots__ = ("throttle_time_ms", "brokers", "cluster_id", "controller_id", "topics", "cluster_authorized_operations", "error_code")
    NAME = "MetadataResponse"
    API_KEY = 3
    TYPE = "response"
    VERSIONS = (0, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("throttle_time_ms", "int32", (3, 32767), None, None, None, 0, True),
        ("brokers", "[]MetadataResponseBroker", (0, 32767), None, None, None, (), False),
        ("cluster_id", "string", (2, 32767), (2, 32767), None, None, None, True),
        ("controller_id", "int32", (1, 32767), None, None, None, -1, True),
        ("topics", "[]MetadataResponseTopic", (0, 32767), None, None, None, (), False),
        ("cluster_authorized_operations", "int32", (8, 10), None, None, None, -2147483648, False),
        ("error_code", "int16", (13, 32767), None, None, None, 0, True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponseBroker] = NEW,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponseTopic] = NEW,
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = [] if brokers is NEW else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = [] if topics is NEW else topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code


class MetadataResponseBroker(Message):
    __slots__ = ("node_id", "host", "port", "rack")
    VERSIONS = (0, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("node_id", "int32", (0, 32767), None, None, None, 0, False),
        ("host", "string", (0, 32767), None, None, None, "", False),
        ("port", "int32", (0, 32767), None, None, None, 0, False),
        ("rack", "string", (1, 32767), (1, 32767), None, None, None, True),
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class MetadataResponseTopic(Message):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    VERSIONS = (0, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("name", "string", (0, 32767), (12, 32767), None, None, "", False),
        ("topic_id", "uuid", (10, 32767), None, None, None, ZERO_UUID, True),
        ("is_internal", "bool", (1, 32767), None, None, None, False, True),
        ("partitions", "[]MetadataResponsePartition", (0, 32767), None, None, None, (), False),
        ("topic_authorized_operations", "int32", (8, 32767), None, None, None, -2147483648, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[MetadataResponsePartition] = NEW,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is NEW else partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponsePartition(Message):
    __slots__ = ("error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "offline_replicas")
    VERSIONS = (0, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_id", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (7, 32767), None, None, None, -1, True),
        ("replica_nodes", "[]int32", (0, 32767), None, None, None, (), False),
        ("isr_nodes", "[]int32", (0, 32767), None, None, None, (), False),
        ("offline_replicas", "[]int32", (5, 32767), None, None, None, (), True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = NEW,
        isr_nodes: list[int] = NEW,
        offline_replicas: list[int] = NEW,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is NEW else replica_nodes
        self.isr_nodes = [] if isr_nodes is NEW else isr_nodes
        self.offline_replicas = [] if offline_replicas is NEW else offline_replicas

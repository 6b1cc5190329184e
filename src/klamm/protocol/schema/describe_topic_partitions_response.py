# DescribeTopicPartitionsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class DescribeTopicPartitionsResponse(Message):
    __slots__ = ("throttle_time_ms", "topics", "next_cursor")
    NAME = "DescribeTopicPartitionsResponse"
    API_KEY = 75
    TYPE = "response"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, True),
        ("topics", "[]DescribeTopicPartitionsResponseTopic", (0, 32767), None, None, None, (), False),
        ("next_cursor", "Cursor", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] = NEW,
        next_cursor: Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW else topics
        self.next_cursor = next_cursor


class DescribeTopicPartitionsResponseTopic(Message):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("name", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, True),
        ("is_internal", "bool", (0, 32767), None, None, None, False, True),
        ("partitions", "[]DescribeTopicPartitionsResponsePartition", (0, 32767), None, None, None, (), False),
        ("topic_authorized_operations", "int32", (0, 32767), None, None, None, -2147483648, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: bytes = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] = NEW,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is NEW else partitions
        self.topic_authorized_operations = topic_authorized_operations


class DescribeTopicPartitionsResponsePartition(Message):
    __slots__ = ("error_code", "partition_index", "leader_id", "leader_epoch", "replica_nodes", "isr_nodes", "eligible_leader_replicas", "last_known_elr", "offline_replicas")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_id", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, None, -1, True),
        ("replica_nodes", "[]int32", (0, 32767), None, None, None, (), False),
        ("isr_nodes", "[]int32", (0, 32767), None, None, None, (), False),
        ("eligible_leader_replicas", "[]int32", (0, 32767), (0, 32767), None, None, None, False),
        ("last_known_elr", "[]int32", (0, 32767), (0, 32767), None, None, None, False),
        ("offline_replicas", "[]int32", (0, 32767), None, None, None, (), True),
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
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] = NEW,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is NEW else replica_nodes
        self.isr_nodes = [] if isr_nodes is NEW else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = [] if offline_replicas is NEW else offline_replicas


class Cursor(Message):
    __slots__ = ("topic_name", "partition_index")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, None, "", False),
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index

# ShareAcknowledgeResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ShareAcknowledgeResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "acquisition_lock_timeout_ms", "responses", "node_endpoints")
    NAME = "ShareAcknowledgeResponse"
    API_KEY = 79
    TYPE = "response"
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("acquisition_lock_timeout_ms", "int32", (2, 32767), None, None, None, 0, True),
        ("responses", "[]ShareAcknowledgeTopicResponse", (0, 32767), None, None, None, (), False),
        ("node_endpoints", "[]NodeEndpoint", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareAcknowledgeTopicResponse] = NEW,
        node_endpoints: list[NodeEndpoint] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is NEW else responses
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


class ShareAcknowledgeTopicResponse(Message):
    __slots__ = ("topic_id", "partitions")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("partitions", "[]PartitionData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class PartitionData(Message):
    __slots__ = ("partition_index", "error_code", "error_message", "current_leader")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("current_leader", "LeaderIdAndEpoch", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.current_leader = LeaderIdAndEpoch() if current_leader is NEW else current_leader


class LeaderIdAndEpoch(Message):
    __slots__ = ("leader_id", "leader_epoch")
    VERSIONS = (1, 2)
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
    __slots__ = ("node_id", "host", "port", "rack")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("node_id", "int32", (0, 32767), None, None, None, 0, False),
        ("host", "string", (0, 32767), None, None, None, "", False),
        ("port", "int32", (0, 32767), None, None, None, 0, False),
        ("rack", "string", (0, 32767), (0, 32767), None, None, None, False),
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

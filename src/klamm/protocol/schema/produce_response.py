# ProduceResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ProduceResponse(Message):
    __slots__ = ("responses", "throttle_time_ms", "node_endpoints")
    NAME = "ProduceResponse"
    API_KEY = 0
    TYPE = "response"
    VERSIONS = (3, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("responses", "[]TopicProduceResponse", (0, 32767), None, None, None, (), False),
        ("throttle_time_ms", "int32", (1, 32767), None, None, None, 0, True),
        ("node_endpoints", "[]NodeEndpoint", (10, 32767), None, 0, (10, 32767), (), False),
    )

    def __init__(
        self,
        *,
        responses: list[TopicProduceResponse] = NEW,
        throttle_time_ms: int = 0,
        node_endpoints: list[NodeEndpoint] = NEW,
    ) -> None:
        self.responses = [] if responses is NEW else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = [] if node_endpoints is NEW else node_endpoints


class TopicProduceResponse(Message):
    __slots__ = ("name", "topic_id", "partition_responses")
    VERSIONS = (3, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("name", "string", (0, 12), None, None, None, "", True),
        ("topic_id", "uuid", (13, 32767), None, None, None, ZERO_UUID, True),
        ("partition_responses", "[]PartitionProduceResponse", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: bytes = ZERO_UUID,
        partition_responses: list[PartitionProduceResponse] = NEW,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = [] if partition_responses is NEW else partition_responses


class PartitionProduceResponse(Message):
    __slots__ = ("index", "error_code", "base_offset", "log_append_time_ms", "log_start_offset", "record_errors", "error_message", "current_leader")
    VERSIONS = (3, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("index", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("base_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("log_append_time_ms", "int64", (2, 32767), None, None, None, -1, True),
        ("log_start_offset", "int64", (5, 32767), None, None, None, -1, True),
        ("record_errors", "[]BatchIndexAndErrorMessage", (8, 32767), None, None, None, (), True),
        ("error_message", "string", (8, 32767), (8, 32767), None, None, None, True),
        ("current_leader", "LeaderIdAndEpoch", (10, 32767), None, 0, (10, 32767), (), False),
    )

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] = NEW,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = NEW,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = [] if record_errors is NEW else record_errors
        self.error_message = error_message
        self.current_leader = LeaderIdAndEpoch() if current_leader is NEW else current_leader


class BatchIndexAndErrorMessage(Message):
    __slots__ = ("batch_index", "batch_index_error_message")
    VERSIONS = (3, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("batch_index", "int32", (8, 32767), None, None, None, 0, False),
        ("batch_index_error_message", "string", (8, 32767), (8, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class LeaderIdAndEpoch(Message):
    __slots__ = ("leader_id", "leader_epoch")
    VERSIONS = (3, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("leader_id", "int32", (10, 32767), None, None, None, -1, False),
        ("leader_epoch", "int32", (10, 32767), None, None, None, -1, False),
    )

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class NodeEndpoint(Message):
    __slots__ = ("node_id", "host", "port", "rack")
    VERSIONS = (3, 13)
    FLEXIBLE_FROM = 9
    FIELDS = (
        ("node_id", "int32", (10, 32767), None, None, None, 0, False),
        ("host", "string", (10, 32767), None, None, None, "", False),
        ("port", "int32", (10, 32767), None, None, None, 0, False),
        ("rack", "string", (10, 32767), (10, 32767), None, None, None, False),
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

# DescribeClusterResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeClusterResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "endpoint_type", "cluster_id", "controller_id", "brokers", "cluster_authorized_operations")
    NAME = "DescribeClusterResponse"
    API_KEY = 60
    TYPE = "response"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("endpoint_type", "int8", (1, 32767), None, None, None, 1, False),
        ("cluster_id", "string", (0, 32767), None, None, None, "", False),
        ("controller_id", "int32", (0, 32767), None, None, None, -1, False),
        ("brokers", "[]DescribeClusterBroker", (0, 32767), None, None, None, (), False),
        ("cluster_authorized_operations", "int32", (0, 32767), None, None, None, -2147483648, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterBroker] = NEW,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = [] if brokers is NEW else brokers
        self.cluster_authorized_operations = cluster_authorized_operations


class DescribeClusterBroker(Message):
    __slots__ = ("broker_id", "host", "port", "rack", "is_fenced")
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, None, 0, False),
        ("host", "string", (0, 32767), None, None, None, "", False),
        ("port", "int32", (0, 32767), None, None, None, 0, False),
        ("rack", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("is_fenced", "bool", (2, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced

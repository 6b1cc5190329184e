# StreamsGroupMemberMetadataValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class StreamsGroupMemberMetadataValue(Message):
    __slots__ = ("instance_id", "rack_id", "client_id", "client_host", "rebalance_timeout_ms", "topology_epoch", "process_id", "user_endpoint", "client_tags")
    NAME = "StreamsGroupMemberMetadataValue"
    API_KEY = 19
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("instance_id", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("client_id", "string", (0, 32767), None, None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, None, "", False),
        ("rebalance_timeout_ms", "int32", (0, 32767), None, None, None, -1, False),
        ("topology_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("process_id", "string", (0, 32767), None, None, None, "", False),
        ("user_endpoint", "Endpoint", (0, 32767), (0, 32767), None, None, None, False),
        ("client_tags", "[]KeyValue", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout_ms: int = -1,
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] = NEW,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = [] if client_tags is NEW else client_tags


class Endpoint(Message):
    __slots__ = ("host", "port")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("host", "string", (0, 32767), None, None, None, "", False),
        ("port", "uint16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host = host
        self.port = port


class KeyValue(Message):
    __slots__ = ("key", "value")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("key", "string", (0, 32767), None, None, None, "", False),
        ("value", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key = key
        self.value = value

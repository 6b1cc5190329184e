# JoinGroupRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class JoinGroupRequest(Message):
    __slots__ = ("group_id", "session_timeout_ms", "rebalance_timeout_ms", "member_id", "group_instance_id", "protocol_type", "protocols", "reason")
    NAME = "JoinGroupRequest"
    API_KEY = 11
    TYPE = "request"
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("session_timeout_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("rebalance_timeout_ms", "int32", (1, 32767), None, None, None, -1, True),
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("group_instance_id", "string", (5, 32767), (5, 32767), None, None, None, False),
        ("protocol_type", "string", (0, 32767), None, None, None, "", False),
        ("protocols", "[]JoinGroupRequestProtocol", (0, 32767), None, None, None, (), False),
        ("reason", "string", (8, 32767), (8, 32767), None, None, None, True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] = NEW,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = [] if protocols is NEW else protocols
        self.reason = reason


class JoinGroupRequestProtocol(Message):
    __slots__ = ("name", "metadata")
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("metadata", "bytes", (0, 32767), None, None, None, b'', False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        metadata: bytes = b'',
    ) -> None:
        self.name = name
        self.metadata = metadata

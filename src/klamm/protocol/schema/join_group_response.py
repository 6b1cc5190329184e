# JoinGroupResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class JoinGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "generation_id", "protocol_type", "protocol_name", "leader", "skip_assignment", "member_id", "members")
    NAME = "JoinGroupResponse"
    API_KEY = 11
    TYPE = "response"
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("throttle_time_ms", "int32", (2, 32767), None, None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("generation_id", "int32", (0, 32767), None, None, None, -1, False),
        ("protocol_type", "string", (7, 32767), (7, 32767), None, None, None, True),
        ("protocol_name", "string", (0, 32767), (7, 32767), None, None, "", False),
        ("leader", "string", (0, 32767), None, None, None, "", False),
        ("skip_assignment", "bool", (9, 32767), None, None, None, False, False),
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("members", "[]JoinGroupResponseMember", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponseMember] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = [] if members is NEW else members


class JoinGroupResponseMember(Message):
    __slots__ = ("member_id", "group_instance_id", "metadata")
    VERSIONS = (0, 9)
    FLEXIBLE_FROM = 6
    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("group_instance_id", "string", (5, 32767), (5, 32767), None, None, None, True),
        ("metadata", "bytes", (0, 32767), None, None, None, b'', False),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: bytes = b'',
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata

# LeaveGroupResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class LeaveGroupResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "members")
    NAME = "LeaveGroupResponse"
    API_KEY = 13
    TYPE = "response"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("members", "[]MemberResponse", (3, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[MemberResponse] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = [] if members is NEW else members


class MemberResponse(Message):
    __slots__ = ("member_id", "group_instance_id", "error_code")
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("member_id", "string", (3, 32767), None, None, None, "", False),
        ("group_instance_id", "string", (3, 32767), (3, 32767), None, None, "", False),
        ("error_code", "int16", (3, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code

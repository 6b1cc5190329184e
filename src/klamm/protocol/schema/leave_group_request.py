# LeaveGroupRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class LeaveGroupRequest(Message):
    __slots__ = ("group_id", "member_id", "members")
    NAME = "LeaveGroupRequest"
    API_KEY = 13
    TYPE = "request"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("member_id", "string", (0, 2), None, None, None, "", False),
        ("members", "[]MemberIdentity", (3, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        members: list[MemberIdentity] = NEW,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = [] if members is NEW else members


class MemberIdentity(Message):
    __slots__ = ("member_id", "group_instance_id", "reason")
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("member_id", "string", (3, 32767), None, None, None, "", False),
        ("group_instance_id", "string", (3, 32767), (3, 32767), None, None, None, False),
        ("reason", "string", (5, 32767), (5, 32767), None, None, None, True),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason

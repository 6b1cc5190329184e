# SyncGroupRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class SyncGroupRequest(Message):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id", "protocol_type", "protocol_name", "assignments")
    NAME = "SyncGroupRequest"
    API_KEY = 14
    TYPE = "request"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("generation_id", "int32", (0, 32767), None, None, None, 0, False),
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("group_instance_id", "string", (3, 32767), (3, 32767), None, None, None, False),
        ("protocol_type", "string", (5, 32767), (5, 32767), None, None, None, True),
        ("protocol_name", "string", (5, 32767), (5, 32767), None, None, None, True),
        ("assignments", "[]SyncGroupRequestAssignment", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] = NEW,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = [] if assignments is NEW else assignments


class SyncGroupRequestAssignment(Message):
    __slots__ = ("member_id", "assignment")
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("assignment", "bytes", (0, 32767), None, None, None, b'', False),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        assignment: bytes = b'',
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment

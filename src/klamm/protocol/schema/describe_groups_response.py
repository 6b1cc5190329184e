# DescribeGroupsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")
    NAME = "DescribeGroupsResponse"
    API_KEY = 15
    TYPE = "response"
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 5
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, None, 0, True),
        ("groups", "[]DescribedGroup", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is NEW else groups


class DescribedGroup(Message):
    __slots__ = ("error_code", "error_message", "group_id", "group_state", "protocol_type", "protocol_data", "members", "authorized_operations", "members_needed", "awaited_members", "change_causes", "changing_since_ms")
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 5
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (6, 32767), (6, 32767), None, None, None, False),
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("group_state", "string", (0, 32767), None, None, None, "", False),
        ("protocol_type", "string", (0, 32767), None, None, None, "", False),
        ("protocol_data", "string", (0, 32767), None, None, None, "", False),
        ("members", "[]DescribedGroupMember", (0, 32767), None, None, None, (), False),
        ("authorized_operations", "int32", (3, 32767), None, None, None, -2147483648, False),
        ("members_needed", "int32", (5, 32767), None, 27500, (5, 32767), -1, True),
        ("awaited_members", "[]string", (5, 32767), (5, 32767), 27501, (5, 32767), None, True),
        ("change_causes", "[]string", (5, 32767), (5, 32767), 27502, (5, 32767), None, True),
        ("changing_since_ms", "int64", (5, 32767), None, 27503, (5, 32767), -1, True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] = NEW,
        authorized_operations: int = -2147483648,
        members_needed: int = -1,
        awaited_members: list[str] | None = None,
        change_causes: list[str] | None = None,
        changing_since_ms: int = -1,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = [] if members is NEW else members
        self.authorized_operations = authorized_operations
        self.members_needed = members_needed
        self.awaited_members = awaited_members
        self.change_causes = change_causes
        self.changing_since_ms = changing_since_ms


class DescribedGroupMember(Message):
    __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment")
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 5
    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("group_instance_id", "string", (4, 32767), (4, 32767), None, None, None, True),
        ("client_id", "string", (0, 32767), None, None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, None, "", False),
        ("member_metadata", "bytes", (0, 32767), None, None, None, b'', False),
        ("member_assignment", "bytes", (0, 32767), None, None, None, b'', False),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b'',
        member_assignment: bytes = b'',
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment

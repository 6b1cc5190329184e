# ListGroupsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ListGroupsResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "groups")
    NAME = "ListGroupsResponse"
    API_KEY = 16
    TYPE = "response"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("groups", "[]ListedGroup", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: list[ListedGroup] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = [] if groups is NEW else groups


class ListedGroup(Message):
    __slots__ = ("group_id", "protocol_type", "group_state", "group_type")
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("protocol_type", "string", (0, 32767), None, None, None, "", False),
        ("group_state", "string", (4, 32767), None, None, None, "", True),
        ("group_type", "string", (5, 32767), None, None, None, "", True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type

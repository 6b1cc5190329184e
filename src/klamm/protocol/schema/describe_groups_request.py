# DescribeGroupsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DescribeGroupsRequest(Message):
    __slots__ = ("groups", "include_authorized_operations")
    NAME = "DescribeGroupsRequest"
    API_KEY = 15
    TYPE = "request"
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 5
    FIELDS = (
        ("groups", "[]string", (0, 32767), None, None, None, (), False),
        ("include_authorized_operations", "bool", (3, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        groups: list[str] = NEW,
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups = [] if groups is NEW else groups
        self.include_authorized_operations = include_authorized_operations

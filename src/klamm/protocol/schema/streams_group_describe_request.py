# StreamsGroupDescribeRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class StreamsGroupDescribeRequest(Message):
    __slots__ = ("group_ids", "include_authorized_operations")
    NAME = "StreamsGroupDescribeRequest"
    API_KEY = 89
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("group_ids", "[]string", (0, 32767), None, None, None, (), False),
        ("include_authorized_operations", "bool", (0, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        group_ids: list[str] = NEW,
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = [] if group_ids is NEW else group_ids
        self.include_authorized_operations = include_authorized_operations

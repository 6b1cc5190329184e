# HeartbeatRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class HeartbeatRequest(Message):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")
    NAME = "HeartbeatRequest"
    API_KEY = 12
    TYPE = "request"
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("generation_id", "int32", (0, 32767), None, None, None, 0, False),
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("group_instance_id", "string", (3, 32767), (3, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id

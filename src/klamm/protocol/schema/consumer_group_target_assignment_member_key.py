# ConsumerGroupTargetAssignmentMemberKey of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class ConsumerGroupTargetAssignmentMemberKey(Message):
    __slots__ = ("group_id", "member_id")
    NAME = "ConsumerGroupTargetAssignmentMemberKey"
    API_KEY = 7
    TYPE = "coordinator-key"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("group_id", "string", (0, 0), None, None, None, "", False),
        ("member_id", "string", (0, 0), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id

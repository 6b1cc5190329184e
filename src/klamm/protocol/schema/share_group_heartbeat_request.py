# ShareGroupHeartbeatRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class ShareGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topic_names")
    NAME = "ShareGroupHeartbeatRequest"
    API_KEY = 76
    TYPE = "request"
    VERSIONS = (1, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("member_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("subscribed_topic_names", "[]string", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: list[str] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.rack_id = rack_id
        self.subscribed_topic_names = subscribed_topic_names

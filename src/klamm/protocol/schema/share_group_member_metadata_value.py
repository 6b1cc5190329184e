# ShareGroupMemberMetadataValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ShareGroupMemberMetadataValue(Message):
    __slots__ = ("rack_id", "client_id", "client_host", "subscribed_topic_names")
    NAME = "ShareGroupMemberMetadataValue"
    API_KEY = 10
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("client_id", "string", (0, 32767), None, None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, None, "", False),
        ("subscribed_topic_names", "[]string", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = NEW,
    ) -> None:
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is NEW else subscribed_topic_names

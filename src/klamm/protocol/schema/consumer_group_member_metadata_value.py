# ConsumerGroupMemberMetadataValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ConsumerGroupMemberMetadataValue(Message):
    __slots__ = ("instance_id", "rack_id", "client_id", "client_host", "subscribed_topic_names", "subscribed_topic_regex", "rebalance_timeout_ms", "server_assignor", "classic_member_metadata")
    NAME = "ConsumerGroupMemberMetadataValue"
    API_KEY = 5
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("instance_id", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("client_id", "string", (0, 32767), None, None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, None, "", False),
        ("subscribed_topic_names", "[]string", (0, 32767), None, None, None, (), False),
        ("subscribed_topic_regex", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("rebalance_timeout_ms", "int32", (0, 32767), None, None, None, -1, False),
        ("server_assignor", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("classic_member_metadata", "ClassicMemberMetadata", (0, 32767), (0, 32767), 0, (0, 32767), (), False),
    )

    def __init__(
        self,
        *,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = NEW,
        subscribed_topic_regex: str | None = "",
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = "",
        classic_member_metadata: ClassicMemberMetadata | None = NEW,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is NEW else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.server_assignor = server_assignor
        self.classic_member_metadata = ClassicMemberMetadata() if classic_member_metadata is NEW else classic_member_metadata


class ClassicMemberMetadata(Message):
    __slots__ = ("session_timeout_ms", "supported_protocols")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("session_timeout_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("supported_protocols", "[]ClassicProtocol", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        session_timeout_ms: int = 0,
        supported_protocols: list[ClassicProtocol] = NEW,
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.supported_protocols = [] if supported_protocols is NEW else supported_protocols


class ClassicProtocol(Message):
    __slots__ = ("name", "metadata")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("metadata", "bytes", (0, 32767), None, None, None, b'', False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        metadata: bytes = b'',
    ) -> None:
        self.name = name
        self.metadata = metadata

# FindCoordinatorRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class FindCoordinatorRequest(Message):
    __slots__ = ("key", "key_type", "coordinator_keys")
    NAME = "FindCoordinatorRequest"
    API_KEY = 10
    TYPE = "request"
    VERSIONS = (0, 6)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("key", "string", (0, 3), None, None, None, "", False),
        ("key_type", "int8", (1, 32767), None, None, None, 0, False),
        ("coordinator_keys", "[]string", (4, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: list[str] = NEW,
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = [] if coordinator_keys is NEW else coordinator_keys

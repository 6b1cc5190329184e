# DeleteGroupsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class DeleteGroupsRequest(Message):
    __slots__ = ("groups_names",)
    NAME = "DeleteGroupsRequest"
    API_KEY = 42
    TYPE = "request"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("groups_names", "[]string", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        groups_names: list[str] = NEW,
    ) -> None:
        self.groups_names = [] if groups_names is NEW else groups_names

# ListGroupsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ListGroupsRequest(Message):
    __slots__ = ("states_filter", "types_filter")
    NAME = "ListGroupsRequest"
    API_KEY = 16
    TYPE = "request"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("states_filter", "[]string", (4, 32767), None, None, None, (), False),
        ("types_filter", "[]string", (5, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        states_filter: list[str] = NEW,
        types_filter: list[str] = NEW,
    ) -> None:
        self.states_filter = [] if states_filter is NEW else states_filter
        self.types_filter = [] if types_filter is NEW else types_filter

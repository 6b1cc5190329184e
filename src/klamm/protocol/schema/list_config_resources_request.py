# ListConfigResourcesRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ListConfigResourcesRequest(Message):
    __slots__ = ("resource_types",)
    NAME = "ListConfigResourcesRequest"
    API_KEY = 74
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("resource_types", "[]int8", (1, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        resource_types: list[int] = NEW,
    ) -> None:
        self.resource_types = [] if resource_types is NEW else resource_types

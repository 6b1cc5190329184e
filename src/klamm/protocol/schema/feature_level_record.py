# FeatureLevelRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class FeatureLevelRecord(Message):
    __slots__ = ("name", "feature_level")
    NAME = "FeatureLevelRecord"
    API_KEY = 12
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("feature_level", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        feature_level: int = 0,
    ) -> None:
        self.name = name
        self.feature_level = feature_level

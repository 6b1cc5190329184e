# UpdateFeaturesRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class UpdateFeaturesRequest(Message):
    __slots__ = ("timeout_ms", "feature_updates", "validate_only")
    NAME = "UpdateFeaturesRequest"
    API_KEY = 57
    TYPE = "request"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("timeout_ms", "int32", (0, 32767), None, None, None, 60000, False),
        ("feature_updates", "[]FeatureUpdateKey", (0, 32767), None, None, None, (), False),
        ("validate_only", "bool", (1, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        feature_updates: list[FeatureUpdateKey] = NEW,
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = [] if feature_updates is NEW else feature_updates
        self.validate_only = validate_only


class FeatureUpdateKey(Message):
    __slots__ = ("feature", "max_version_level", "allow_downgrade", "upgrade_type")
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("feature", "string", (0, 32767), None, None, None, "", False),
        ("max_version_level", "int16", (0, 32767), None, None, None, 0, False),
        ("allow_downgrade", "bool", (0, 0), None, None, None, False, False),
        ("upgrade_type", "int8", (1, 32767), None, None, None, 1, False),
    )

    def __init__(
        self,
        *,
        feature: str = "",
        max_version_level: int = 0,
        allow_downgrade: bool = False,
        upgrade_type: int = 1,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type

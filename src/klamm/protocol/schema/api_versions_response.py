# ApiVersionsResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ApiVersionsResponse(Message):
    __slots__ = ("error_code", "api_keys", "throttle_time_ms", "supported_features", "finalized_features_epoch", "finalized_features", "zk_migration_ready")
    NAME = "ApiVersionsResponse"
    API_KEY = 18
    TYPE = "response"
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("api_keys", "[]ApiVersion", (0, 32767), None, None, None, (), False),
        ("throttle_time_ms", "int32", (1, 32767), None, None, None, 0, True),
        ("supported_features", "[]SupportedFeatureKey", (3, 32767), None, 0, (3, 32767), (), True),
        ("finalized_features_epoch", "int64", (3, 32767), None, 1, (3, 32767), -1, True),
        ("finalized_features", "[]FinalizedFeatureKey", (3, 32767), None, 2, (3, 32767), (), True),
        ("zk_migration_ready", "bool", (3, 32767), None, 3, (3, 32767), False, True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: list[ApiVersion] = NEW,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] = NEW,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] = NEW,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = [] if api_keys is NEW else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = [] if supported_features is NEW else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = [] if finalized_features is NEW else finalized_features
        self.zk_migration_ready = zk_migration_ready


class ApiVersion(Message):
    __slots__ = ("api_key", "min_version", "max_version")
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("api_key", "int16", (0, 32767), None, None, None, 0, False),
        ("min_version", "int16", (0, 32767), None, None, None, 0, False),
        ("max_version", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(Message):
    __slots__ = ("name", "min_version", "max_version")
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("name", "string", (3, 32767), None, None, None, "", False),
        ("min_version", "int16", (3, 32767), None, None, None, 0, False),
        ("max_version", "int16", (3, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(Message):
    __slots__ = ("name", "max_version_level", "min_version_level")
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("name", "string", (3, 32767), None, None, None, "", False),
        ("max_version_level", "int16", (3, 32767), None, None, None, 0, False),
        ("min_version_level", "int16", (3, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level

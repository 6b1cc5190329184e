# ControllerRegistrationRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ControllerRegistrationRequest(Message):
    __slots__ = ("controller_id", "incarnation_id", "zk_migration_ready", "listeners", "features")
    NAME = "ControllerRegistrationRequest"
    API_KEY = 70
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("controller_id", "int32", (0, 32767), None, None, None, 0, False),
        ("incarnation_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("zk_migration_ready", "bool", (0, 32767), None, None, None, False, False),
        ("listeners", "[]Listener", (0, 32767), None, None, None, (), False),
        ("features", "[]Feature", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        controller_id: int = 0,
        incarnation_id: bytes = ZERO_UUID,
        zk_migration_ready: bool = False,
        listeners: list[Listener] = NEW,
        features: list[Feature] = NEW,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.listeners = [] if listeners is NEW else listeners
        self.features = [] if features is NEW else features


class Listener(Message):
    __slots__ = ("name", "host", "port", "security_protocol")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("host", "string", (0, 32767), None, None, None, "", False),
        ("port", "uint16", (0, 32767), None, None, None, 0, False),
        ("security_protocol", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class Feature(Message):
    __slots__ = ("name", "min_supported_version", "max_supported_version")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("min_supported_version", "int16", (0, 32767), None, None, None, 0, False),
        ("max_supported_version", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version

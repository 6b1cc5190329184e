# BrokerRegistrationRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class BrokerRegistrationRequest(Message):
    __slots__ = ("broker_id", "cluster_id", "incarnation_id", "listeners", "features", "rack", "is_migrating_zk_broker", "log_dirs", "previous_broker_epoch")
    NAME = "BrokerRegistrationRequest"
    API_KEY = 62
    TYPE = "request"
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, None, 0, False),
        ("cluster_id", "string", (0, 32767), None, None, None, "", False),
        ("incarnation_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("listeners", "[]Listener", (0, 32767), None, None, None, (), False),
        ("features", "[]Feature", (0, 32767), None, None, None, (), False),
        ("rack", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("is_migrating_zk_broker", "bool", (1, 32767), None, None, None, False, False),
        ("log_dirs", "[]uuid", (2, 32767), None, None, None, (), True),
        ("previous_broker_epoch", "int64", (3, 32767), None, None, None, -1, True),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: bytes = ZERO_UUID,
        listeners: list[Listener] = NEW,
        features: list[Feature] = NEW,
        rack: str | None = "",
        is_migrating_zk_broker: bool = False,
        log_dirs: list[bytes] = NEW,
        previous_broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners = [] if listeners is NEW else listeners
        self.features = [] if features is NEW else features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs = [] if log_dirs is NEW else log_dirs
        self.previous_broker_epoch = previous_broker_epoch


class Listener(Message):
    __slots__ = ("name", "host", "port", "security_protocol")
    VERSIONS = (0, 4)
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
    VERSIONS = (0, 4)
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

# RegisterBrokerRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class RegisterBrokerRecord(Message):
    __slots__ = ("broker_id", "is_migrating_zk_broker", "incarnation_id", "broker_epoch", "end_points", "features", "rack", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs")
    NAME = "RegisterBrokerRecord"
    API_KEY = 0
    TYPE = "metadata"
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, None, 0, False),
        ("is_migrating_zk_broker", "bool", (2, 32767), None, None, None, False, False),
        ("incarnation_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("broker_epoch", "int64", (0, 32767), None, None, None, 0, False),
        ("end_points", "[]BrokerEndpoint", (0, 32767), None, None, None, (), False),
        ("features", "[]BrokerFeature", (0, 32767), None, None, None, (), False),
        ("rack", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("fenced", "bool", (0, 32767), None, None, None, True, False),
        ("in_controlled_shutdown", "bool", (1, 32767), None, None, None, False, False),
        ("log_dirs", "[]uuid", (3, 32767), None, 0, (3, 32767), (), False),
        ("cordoned_log_dirs", "[]uuid", (4, 32767), (4, 32767), 1, (4, 32767), None, False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        is_migrating_zk_broker: bool = False,
        incarnation_id: bytes = ZERO_UUID,
        broker_epoch: int = 0,
        end_points: list[BrokerEndpoint] = NEW,
        features: list[BrokerFeature] = NEW,
        rack: str | None = "",
        fenced: bool = True,
        in_controlled_shutdown: bool = False,
        log_dirs: list[bytes] = NEW,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.incarnation_id = incarnation_id
        self.broker_epoch = broker_epoch
        self.end_points = [] if end_points is NEW else end_points
        self.features = [] if features is NEW else features
        self.rack = rack
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = [] if log_dirs is NEW else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs


class BrokerEndpoint(Message):
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


class BrokerFeature(Message):
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

# BrokerRegistrationChangeRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class BrokerRegistrationChangeRecord(Message):
    __slots__ = ("broker_id", "broker_epoch", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs")
    NAME = "BrokerRegistrationChangeRecord"
    API_KEY = 17
    TYPE = "metadata"
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, None, 0, False),
        ("broker_epoch", "int64", (0, 32767), None, None, None, 0, False),
        ("fenced", "int8", (0, 32767), None, 0, (0, 32767), 0, False),
        ("in_controlled_shutdown", "int8", (1, 32767), None, 1, (1, 32767), 0, False),
        ("log_dirs", "[]uuid", (2, 32767), None, 2, (2, 32767), (), False),
        ("cordoned_log_dirs", "[]uuid", (3, 32767), (3, 32767), 3, (3, 32767), None, False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = 0,
        fenced: int = 0,
        in_controlled_shutdown: int = 0,
        log_dirs: list[bytes] = NEW,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = [] if log_dirs is NEW else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs

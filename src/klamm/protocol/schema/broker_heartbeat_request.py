# BrokerHeartbeatRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class BrokerHeartbeatRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "current_metadata_offset", "want_fence", "want_shut_down", "offline_log_dirs", "cordoned_log_dirs")
    NAME = "BrokerHeartbeatRequest"
    API_KEY = 63
    TYPE = "request"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, None, 0, False),
        ("broker_epoch", "int64", (0, 32767), None, None, None, -1, False),
        ("current_metadata_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("want_fence", "bool", (0, 32767), None, None, None, False, False),
        ("want_shut_down", "bool", (0, 32767), None, None, None, False, False),
        ("offline_log_dirs", "[]uuid", (1, 32767), None, 0, (1, 32767), (), False),
        ("cordoned_log_dirs", "[]uuid", (2, 32767), (2, 32767), 1, (2, 32767), None, False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        current_metadata_offset: int = 0,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: list[bytes] = NEW,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.current_metadata_offset = current_metadata_offset
        self.want_fence = want_fence
        self.want_shut_down = want_shut_down
        self.offline_log_dirs = [] if offline_log_dirs is NEW else offline_log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs

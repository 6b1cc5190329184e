# AddRaftVoterRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class AddRaftVoterRequest(Message):
    __slots__ = ("cluster_id", "timeout_ms", "voter_id", "voter_directory_id", "listeners", "ack_when_committed")
    NAME = "AddRaftVoterRequest"
    API_KEY = 80
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("timeout_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("voter_id", "int32", (0, 32767), None, None, None, 0, False),
        ("voter_directory_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("listeners", "[]Listener", (0, 32767), None, None, None, (), False),
        ("ack_when_committed", "bool", (1, 32767), None, None, None, True, False),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        listeners: list[Listener] = NEW,
        ack_when_committed: bool = True,
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is NEW else listeners
        self.ack_when_committed = ack_when_committed


class Listener(Message):
    __slots__ = ("name", "host", "port")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("host", "string", (0, 32767), None, None, None, "", False),
        ("port", "uint16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port

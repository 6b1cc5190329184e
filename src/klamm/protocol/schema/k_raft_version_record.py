# KRaftVersionRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class KRaftVersionRecord(Message):
    __slots__ = ("version", "k_raft_version")
    NAME = "KRaftVersionRecord"
    API_KEY = None
    TYPE = "data"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("version", "int16", (0, 32767), None, None, None, 0, False),
        ("k_raft_version", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        version: int = 0,
        k_raft_version: int = 0,
    ) -> None:
        self.version = version
        self.k_raft_version = k_raft_version

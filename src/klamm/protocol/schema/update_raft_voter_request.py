# UpdateRaftVoterRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class UpdateRaftVoterRequest(Message):
    __slots__ = ("cluster_id", "current_leader_epoch", "voter_id", "voter_directory_id", "listeners", "k_raft_version_feature")
    NAME = "UpdateRaftVoterRequest"
    API_KEY = 82
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("current_leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("voter_id", "int32", (0, 32767), None, None, None, 0, False),
        ("voter_directory_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("listeners", "[]Listener", (0, 32767), None, None, None, (), False),
        ("k_raft_version_feature", "KRaftVersionFeature", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        current_leader_epoch: int = 0,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        listeners: list[Listener] = NEW,
        k_raft_version_feature: KRaftVersionFeature = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.current_leader_epoch = current_leader_epoch
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is NEW else listeners
        self.k_raft_version_feature = KRaftVersionFeature() if k_raft_version_feature is NEW else k_raft_version_feature


class Listener(Message):
    __slots__ = ("name", "host", "port")
    VERSIONS = (0, 0)
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


class KRaftVersionFeature(Message):
    __slots__ = ("min_supported_version", "max_supported_version")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("min_supported_version", "int16", (0, 32767), None, None, None, 0, False),
        ("max_supported_version", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version

# RemoveRaftVoterRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, Message


class RemoveRaftVoterRequest(Message):
    __slots__ = ("cluster_id", "voter_id", "voter_directory_id")
    NAME = "RemoveRaftVoterRequest"
    API_KEY = 81
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("voter_id", "int32", (0, 32767), None, None, None, 0, False),
        ("voter_directory_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id

# LeaderChangeMessage of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class LeaderChangeMessage(Message):
    __slots__ = ("version", "leader_id", "voters", "granting_voters")
    NAME = "LeaderChangeMessage"
    API_KEY = None
    TYPE = "data"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("version", "int16", (0, 32767), None, None, None, 0, False),
        ("leader_id", "int32", (0, 32767), None, None, None, 0, False),
        ("voters", "[]Voter", (0, 32767), None, None, None, (), False),
        ("granting_voters", "[]Voter", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        version: int = 0,
        leader_id: int = 0,
        voters: list[Voter] = NEW,
        granting_voters: list[Voter] = NEW,
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters = [] if voters is NEW else voters
        self.granting_voters = [] if granting_voters is NEW else granting_voters


class Voter(Message):
    __slots__ = ("voter_id", "voter_directory_id")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("voter_id", "int32", (0, 32767), None, None, None, 0, False),
        ("voter_directory_id", "uuid", (1, 32767), None, None, None, ZERO_UUID, False),
    )

    def __init__(
        self,
        *,
        voter_id: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id

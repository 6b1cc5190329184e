# ElectLeadersResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ElectLeadersResponse(Message):
    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results")
    NAME = "ElectLeadersResponse"
    API_KEY = 43
    TYPE = "response"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (1, 32767), None, None, None, 0, False),
        ("replica_election_results", "[]ReplicaElectionResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = [] if replica_election_results is NEW else replica_election_results


class ReplicaElectionResult(Message):
    __slots__ = ("topic", "partition_result")
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("topic", "string", (0, 32767), None, None, None, "", False),
        ("partition_result", "[]PartitionResult", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partition_result: list[PartitionResult] = NEW,
    ) -> None:
        self.topic = topic
        self.partition_result = [] if partition_result is NEW else partition_result


class PartitionResult(Message):
    __slots__ = ("partition_id", "error_code", "error_message")
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("partition_id", "int32", (0, 32767), None, None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message

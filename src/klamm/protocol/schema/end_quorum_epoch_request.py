# EndQuorumEpochRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class EndQuorumEpochRequest(Message):
    __slots__ = ("cluster_id", "topics", "leader_endpoints")
    NAME = "EndQuorumEpochRequest"
    API_KEY = 54
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("topics", "[]TopicData", (0, 32767), None, None, None, (), False),
        ("leader_endpoints", "[]LeaderEndpoint", (1, 32767), None, None, None, (), True),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        topics: list[TopicData] = NEW,
        leader_endpoints: list[LeaderEndpoint] = NEW,
    ) -> None:
        self.cluster_id = cluster_id
        self.topics = [] if topics is NEW else topics
        self.leader_endpoints = [] if leader_endpoints is NEW else leader_endpoints


class TopicData(Message):
    __slots__ = ("topic_name", "partitions")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]PartitionData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[PartitionData] = NEW,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW else partitions


class PartitionData(Message):
    __slots__ = ("partition_index", "leader_id", "leader_epoch", "preferred_successors", "preferred_candidates")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_id", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("preferred_successors", "[]int32", (0, 0), None, None, None, (), True),
        ("preferred_candidates", "[]ReplicaInfo", (1, 32767), None, None, None, (), True),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        preferred_successors: list[int] = NEW,
        preferred_candidates: list[ReplicaInfo] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.preferred_successors = [] if preferred_successors is NEW else preferred_successors
        self.preferred_candidates = [] if preferred_candidates is NEW else preferred_candidates


class ReplicaInfo(Message):
    __slots__ = ("candidate_id", "candidate_directory_id")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("candidate_id", "int32", (1, 32767), None, None, None, 0, False),
        ("candidate_directory_id", "uuid", (1, 32767), None, None, None, ZERO_UUID, False),
    )

    def __init__(
        self,
        *,
        candidate_id: int = 0,
        candidate_directory_id: bytes = ZERO_UUID,
    ) -> None:
        self.candidate_id = candidate_id
        self.candidate_directory_id = candidate_directory_id


class LeaderEndpoint(Message):
    __slots__ = ("name", "host", "port")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    FIELDS = (
        ("name", "string", (1, 32767), None, None, None, "", False),
        ("host", "string", (1, 32767), None, None, None, "", False),
        ("port", "uint16", (1, 32767), None, None, None, 0, False),
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

# OffsetForLeaderEpochRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class OffsetForLeaderEpochRequest(Message):
    __slots__ = ("replica_id", "topics")
    NAME = "OffsetForLeaderEpochRequest"
    API_KEY = 23
    TYPE = "request"
    VERSIONS = (2, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("replica_id", "int32", (3, 32767), None, None, None, -2, True),
        ("topics", "[]OffsetForLeaderTopic", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        replica_id: int = -2,
        topics: list[OffsetForLeaderTopic] = NEW,
    ) -> None:
        self.replica_id = replica_id
        self.topics = [] if topics is NEW else topics


class OffsetForLeaderTopic(Message):
    __slots__ = ("topic", "partitions")
    VERSIONS = (2, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("topic", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]OffsetForLeaderPartition", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[OffsetForLeaderPartition] = NEW,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW else partitions


class OffsetForLeaderPartition(Message):
    __slots__ = ("partition", "current_leader_epoch", "leader_epoch")
    VERSIONS = (2, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, None, 0, False),
        ("current_leader_epoch", "int32", (2, 32767), None, None, None, -1, True),
        ("leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch

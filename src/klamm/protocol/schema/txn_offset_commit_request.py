# TxnOffsetCommitRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class TxnOffsetCommitRequest(Message):
    __slots__ = ("transactional_id", "group_id", "producer_id", "producer_epoch", "generation_id", "member_id", "group_instance_id", "topics")
    NAME = "TxnOffsetCommitRequest"
    API_KEY = 28
    TYPE = "request"
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("transactional_id", "string", (0, 32767), None, None, None, "", False),
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("producer_id", "int64", (0, 32767), None, None, None, 0, False),
        ("producer_epoch", "int16", (0, 32767), None, None, None, 0, False),
        ("generation_id", "int32", (3, 32767), None, None, None, -1, False),
        ("member_id", "string", (3, 32767), None, None, None, "", False),
        ("group_instance_id", "string", (3, 32767), (3, 32767), None, None, None, False),
        ("topics", "[]TxnOffsetCommitRequestTopic", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] = NEW,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is NEW else topics


class TxnOffsetCommitRequestTopic(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]TxnOffsetCommitRequestPartition", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[TxnOffsetCommitRequestPartition] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions


class TxnOffsetCommitRequestPartition(Message):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("committed_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("committed_leader_epoch", "int32", (2, 32767), None, None, None, -1, True),
        ("committed_metadata", "string", (0, 32767), (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata

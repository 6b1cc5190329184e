# ShareAcknowledgeRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ShareAcknowledgeRequest(Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "is_renew_ack", "topics")
    NAME = "ShareAcknowledgeRequest"
    API_KEY = 79
    TYPE = "request"
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("member_id", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("share_session_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("is_renew_ack", "bool", (2, 32767), None, None, None, False, False),
        ("topics", "[]AcknowledgeTopic", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,
        topics: list[AcknowledgeTopic] = NEW,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is NEW else topics


class AcknowledgeTopic(Message):
    __slots__ = ("topic_id", "partitions")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("partitions", "[]AcknowledgePartition", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[AcknowledgePartition] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class AcknowledgePartition(Message):
    __slots__ = ("partition_index", "acknowledgement_batches")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("acknowledgement_batches", "[]AcknowledgementBatch", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        acknowledgement_batches: list[AcknowledgementBatch] = NEW,
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = [] if acknowledgement_batches is NEW else acknowledgement_batches


class AcknowledgementBatch(Message):
    __slots__ = ("first_offset", "last_offset", "acknowledge_types")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("first_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("last_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("acknowledge_types", "[]int8", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        acknowledge_types: list[int] = NEW,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = [] if acknowledge_types is NEW else acknowledge_types

# ShareFetchRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ShareFetchRequest(Message):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "max_wait_ms", "min_bytes", "max_bytes", "max_records", "batch_size", "share_acquire_mode", "is_renew_ack", "topics", "forgotten_topics_data")
    NAME = "ShareFetchRequest"
    API_KEY = 78
    TYPE = "request"
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("member_id", "string", (0, 32767), (0, 32767), None, None, "", False),
        ("share_session_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("max_wait_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("min_bytes", "int32", (0, 32767), None, None, None, 0, False),
        ("max_bytes", "int32", (0, 32767), None, None, None, 2147483647, False),
        ("max_records", "int32", (1, 32767), None, None, None, 0, False),
        ("batch_size", "int32", (1, 32767), None, None, None, 0, False),
        ("share_acquire_mode", "int8", (2, 32767), None, None, None, 0, True),
        ("is_renew_ack", "bool", (2, 32767), None, None, None, False, False),
        ("topics", "[]FetchTopic", (0, 32767), None, None, None, (), False),
        ("forgotten_topics_data", "[]ForgottenTopic", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        share_acquire_mode: int = 0,
        is_renew_ack: bool = False,
        topics: list[FetchTopic] = NEW,
        forgotten_topics_data: list[ForgottenTopic] = NEW,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.share_acquire_mode = share_acquire_mode
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is NEW else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is NEW else forgotten_topics_data


class FetchTopic(Message):
    __slots__ = ("topic_id", "partitions")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("partitions", "[]FetchPartition", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[FetchPartition] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class FetchPartition(Message):
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


class ForgottenTopic(Message):
    __slots__ = ("topic_id", "partitions")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions

# WriteShareGroupStateRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class WriteShareGroupStateRequest(Message):
    __slots__ = ("group_id", "topics")
    NAME = "WriteShareGroupStateRequest"
    API_KEY = 85
    TYPE = "request"
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("topics", "[]WriteStateData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[WriteStateData] = NEW,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW else topics


class WriteStateData(Message):
    __slots__ = ("topic_id", "partitions")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("partitions", "[]PartitionData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[PartitionData] = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions


class PartitionData(Message):
    __slots__ = ("partition", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "state_batches")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, None, 0, False),
        ("state_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("start_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("delivery_complete_count", "int32", (1, 32767), None, None, None, -1, True),
        ("state_batches", "[]StateBatch", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        state_batches: list[StateBatch] = NEW,
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.state_batches = [] if state_batches is NEW else state_batches


class StateBatch(Message):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("first_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("last_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("delivery_state", "int8", (0, 32767), None, None, None, 0, False),
        ("delivery_count", "int16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count

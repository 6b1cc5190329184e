# AlterPartitionRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class AlterPartitionRequest(Message):
    __slots__ = ("broker_id", "broker_epoch", "topics")
    NAME = "AlterPartitionRequest"
    API_KEY = 56
    TYPE = "request"
    VERSIONS = (2, 3)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, None, 0, False),
        ("broker_epoch", "int64", (0, 32767), None, None, None, -1, False),
        ("topics", "[]TopicData", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        topics: list[TopicData] = NEW,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.topics = [] if topics is NEW else topics


class TopicData(Message):
    __slots__ = ("topic_id", "partitions")
    VERSIONS = (2, 3)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (2, 32767), None, None, None, ZERO_UUID, True),
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
    __slots__ = ("partition_index", "leader_epoch", "new_isr", "new_isr_with_epochs", "leader_recovery_state", "partition_epoch")
    VERSIONS = (2, 3)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("new_isr", "[]int32", (0, 2), None, None, None, (), False),
        ("new_isr_with_epochs", "[]BrokerState", (3, 32767), None, None, None, (), False),
        ("leader_recovery_state", "int8", (1, 32767), None, None, None, 0, False),
        ("partition_epoch", "int32", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        leader_epoch: int = 0,
        new_isr: list[int] = NEW,
        new_isr_with_epochs: list[BrokerState] = NEW,
        leader_recovery_state: int = 0,
        partition_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.leader_epoch = leader_epoch
        self.new_isr = [] if new_isr is NEW else new_isr
        self.new_isr_with_epochs = [] if new_isr_with_epochs is NEW else new_isr_with_epochs
        self.leader_recovery_state = leader_recovery_state
        self.partition_epoch = partition_epoch


class BrokerState(Message):
    __slots__ = ("broker_id", "broker_epoch")
    VERSIONS = (2, 3)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("broker_id", "int32", (3, 32767), None, None, None, 0, False),
        ("broker_epoch", "int64", (3, 32767), None, None, None, -1, False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch

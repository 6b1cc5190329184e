# ConsumerGroupCurrentMemberAssignmentValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    __slots__ = ("member_epoch", "previous_member_epoch", "state", "assigned_partitions", "partitions_pending_revocation")
    NAME = "ConsumerGroupCurrentMemberAssignmentValue"
    API_KEY = 8
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("member_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("previous_member_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("state", "int8", (0, 32767), None, None, None, 0, False),
        ("assigned_partitions", "[]TopicPartitions", (0, 32767), None, None, None, (), False),
        ("partitions_pending_revocation", "[]TopicPartitions", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[TopicPartitions] = NEW,
        partitions_pending_revocation: list[TopicPartitions] = NEW,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = [] if assigned_partitions is NEW else assigned_partitions
        self.partitions_pending_revocation = [] if partitions_pending_revocation is NEW else partitions_pending_revocation


class TopicPartitions(Message):
    __slots__ = ("topic_id", "partitions", "assignment_epochs")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
        ("assignment_epochs", "[]int32", (0, 32767), (0, 32767), 0, (0, 32767), (), False),
    )

    def __init__(
        self,
        *,
        topic_id: bytes = ZERO_UUID,
        partitions: list[int] = NEW,
        assignment_epochs: list[int] | None = NEW,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW else partitions
        self.assignment_epochs = [] if assignment_epochs is NEW else assignment_epochs

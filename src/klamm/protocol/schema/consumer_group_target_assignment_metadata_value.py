# ConsumerGroupTargetAssignmentMetadataValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class ConsumerGroupTargetAssignmentMetadataValue(Message):
    __slots__ = ("assignment_epoch", "assignment_timestamp")
    NAME = "ConsumerGroupTargetAssignmentMetadataValue"
    API_KEY = 6
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("assignment_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("assignment_timestamp", "int64", (0, 32767), None, 0, (0, 32767), 0, True),
    )

    def __init__(
        self,
        *,
        assignment_epoch: int = 0,
        assignment_timestamp: int = 0,
    ) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp

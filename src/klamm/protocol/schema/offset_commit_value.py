# OffsetCommitValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, Message


class OffsetCommitValue(Message):
    __slots__ = ("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id")
    NAME = "OffsetCommitValue"
    API_KEY = 1
    TYPE = "coordinator-value"
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4
    FIELDS = (
        ("offset", "int64", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (3, 32767), None, None, None, -1, True),
        ("metadata", "string", (0, 32767), None, None, None, "", False),
        ("commit_timestamp", "int64", (0, 32767), None, None, None, 0, False),
        ("expire_timestamp", "int64", (1, 1), None, None, None, -1, True),
        ("topic_id", "uuid", (4, 32767), None, 0, (4, 32767), ZERO_UUID, True),
    )

    def __init__(
        self,
        *,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
        topic_id: bytes = ZERO_UUID,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id

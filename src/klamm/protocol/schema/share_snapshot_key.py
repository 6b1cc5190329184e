# ShareSnapshotKey of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, Message


class ShareSnapshotKey(Message):
    __slots__ = ("group_id", "topic_id", "partition")
    NAME = "ShareSnapshotKey"
    API_KEY = 0
    TYPE = "coordinator-key"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("group_id", "string", (0, 0), None, None, None, "", False),
        ("topic_id", "uuid", (0, 0), None, None, None, ZERO_UUID, False),
        ("partition", "int32", (0, 0), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topic_id: bytes = ZERO_UUID,
        partition: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition

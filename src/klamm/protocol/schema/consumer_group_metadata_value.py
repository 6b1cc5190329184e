# ConsumerGroupMetadataValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class ConsumerGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash")
    NAME = "ConsumerGroupMetadataValue"
    API_KEY = 3
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("metadata_hash", "int64", (0, 32767), None, 0, (0, 32767), 0, False),
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash

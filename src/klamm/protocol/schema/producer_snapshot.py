# ProducerSnapshot of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ProducerSnapshot(Message):
    __slots__ = ("crc", "producer_entries")
    NAME = "ProducerSnapshot"
    API_KEY = None
    TYPE = "data"
    VERSIONS = (1, 1)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("crc", "uint32", (1, 1), None, None, None, 0, False),
        ("producer_entries", "[]ProducerEntry", (1, 1), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        crc: int = 0,
        producer_entries: list[ProducerEntry] = NEW,
    ) -> None:
        self.crc = crc
        self.producer_entries = [] if producer_entries is NEW else producer_entries


class ProducerEntry(Message):
    __slots__ = ("producer_id", "epoch", "last_sequence", "last_offset", "offset_delta", "timestamp", "coordinator_epoch", "current_txn_first_offset")
    VERSIONS = (1, 1)
    FLEXIBLE_FROM = None
    FIELDS = (
        ("producer_id", "int64", (1, 1), None, None, None, 0, False),
        ("epoch", "int16", (1, 1), None, None, None, 0, False),
        ("last_sequence", "int32", (1, 1), None, None, None, 0, False),
        ("last_offset", "int64", (1, 1), None, None, None, 0, False),
        ("offset_delta", "int32", (1, 1), None, None, None, 0, False),
        ("timestamp", "int64", (1, 1), None, None, None, 0, False),
        ("coordinator_epoch", "int32", (1, 1), None, None, None, 0, False),
        ("current_txn_first_offset", "int64", (1, 1), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        epoch: int = 0,
        last_sequence: int = 0,
        last_offset: int = 0,
        offset_delta: int = 0,
        timestamp: int = 0,
        coordinator_epoch: int = 0,
        current_txn_first_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.last_sequence = last_sequence
        self.last_offset = last_offset
        self.offset_delta = offset_delta
        self.timestamp = timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = current_txn_first_offset

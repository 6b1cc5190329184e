# ShareSnapshotValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class ShareSnapshotValue(Message):
    __slots__ = ("snapshot_epoch", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "create_timestamp", "write_timestamp", "state_batches")
    NAME = "ShareSnapshotValue"
    API_KEY = 0
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("snapshot_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("state_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("start_offset", "int64", (0, 32767), None, None, None, 0, False),
        ("delivery_complete_count", "int32", (0, 32767), None, 0, (0, 32767), -1, False),
        ("create_timestamp", "int64", (0, 32767), None, None, None, 0, False),
        ("write_timestamp", "int64", (0, 32767), None, None, None, 0, False),
        ("state_batches", "[]StateBatch", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        snapshot_epoch: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        create_timestamp: int = 0,
        write_timestamp: int = 0,
        state_batches: list[StateBatch] = NEW,
    ) -> None:
        self.snapshot_epoch = snapshot_epoch
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.create_timestamp = create_timestamp
        self.write_timestamp = write_timestamp
        self.state_batches = [] if state_batches is NEW else state_batches


class StateBatch(Message):
    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    VERSIONS = (0, 0)
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

# PartitionRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, NEW, Message


class PartitionRecord(Message):
    __slots__ = ("partition_id", "topic_id", "replicas", "isr", "removing_replicas", "adding_replicas", "leader", "leader_recovery_state", "leader_epoch", "partition_epoch", "directories", "eligible_leader_replicas", "last_known_elr")
    NAME = "PartitionRecord"
    API_KEY = 3
    TYPE = "metadata"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition_id", "int32", (0, 32767), None, None, None, -1, False),
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("replicas", "[]int32", (0, 32767), None, None, None, (), False),
        ("isr", "[]int32", (0, 32767), None, None, None, (), False),
        ("removing_replicas", "[]int32", (0, 32767), None, None, None, (), False),
        ("adding_replicas", "[]int32", (0, 32767), None, None, None, (), False),
        ("leader", "int32", (0, 32767), None, None, None, -1, False),
        ("leader_recovery_state", "int8", (0, 32767), None, 0, (0, 32767), 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, None, -1, False),
        ("partition_epoch", "int32", (0, 32767), None, None, None, -1, False),
        ("directories", "[]uuid", (1, 32767), None, None, None, (), False),
        ("eligible_leader_replicas", "[]int32", (2, 32767), (2, 32767), 1, (2, 32767), None, False),
        ("last_known_elr", "[]int32", (2, 32767), (2, 32767), 2, (2, 32767), None, False),
    )

    def __init__(
        self,
        *,
        partition_id: int = -1,
        topic_id: bytes = ZERO_UUID,
        replicas: list[int] = NEW,
        isr: list[int] = NEW,
        removing_replicas: list[int] = NEW,
        adding_replicas: list[int] = NEW,
        leader: int = -1,
        leader_recovery_state: int = 0,
        leader_epoch: int = -1,
        partition_epoch: int = -1,
        directories: list[bytes] = NEW,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.replicas = [] if replicas is NEW else replicas
        self.isr = [] if isr is NEW else isr
        self.removing_replicas = [] if removing_replicas is NEW else removing_replicas
        self.adding_replicas = [] if adding_replicas is NEW else adding_replicas
        self.leader = leader
        self.leader_recovery_state = leader_recovery_state
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories = [] if directories is NEW else directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr

# PartitionChangeRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import ZERO_UUID, Message


class PartitionChangeRecord(Message):
    __slots__ = ("partition_id", "topic_id", "isr", "leader", "replicas", "removing_replicas", "adding_replicas", "leader_recovery_state", "directories", "eligible_leader_replicas", "last_known_elr")
    NAME = "PartitionChangeRecord"
    API_KEY = 5
    TYPE = "metadata"
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("partition_id", "int32", (0, 32767), None, None, None, -1, False),
        ("topic_id", "uuid", (0, 32767), None, None, None, ZERO_UUID, False),
        ("isr", "[]int32", (0, 32767), (0, 32767), 0, (0, 32767), None, False),
        ("leader", "int32", (0, 32767), None, 1, (0, 32767), -2, False),
        ("replicas", "[]int32", (0, 32767), (0, 32767), 2, (0, 32767), None, False),
        ("removing_replicas", "[]int32", (0, 32767), (0, 32767), 3, (0, 32767), None, False),
        ("adding_replicas", "[]int32", (0, 32767), (0, 32767), 4, (0, 32767), None, False),
        ("leader_recovery_state", "int8", (0, 32767), None, 5, (0, 32767), -1, False),
        ("directories", "[]uuid", (1, 32767), (1, 32767), 8, (1, 32767), None, False),
        ("eligible_leader_replicas", "[]int32", (2, 32767), (2, 32767), 6, (2, 32767), None, False),
        ("last_known_elr", "[]int32", (2, 32767), (2, 32767), 7, (2, 32767), None, False),
    )

    def __init__(
        self,
        *,
        partition_id: int = -1,
        topic_id: bytes = ZERO_UUID,
        isr: list[int] | None = None,
        leader: int = -2,
        replicas: list[int] | None = None,
        removing_replicas: list[int] | None = None,
        adding_replicas: list[int] | None = None,
        leader_recovery_state: int = -1,
        directories: list[bytes] | None = None,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.isr = isr
        self.leader = leader
        self.replicas = replicas
        self.removing_replicas = removing_replicas
        self.adding_replicas = adding_replicas
        self.leader_recovery_state = leader_recovery_state
        self.directories = directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr

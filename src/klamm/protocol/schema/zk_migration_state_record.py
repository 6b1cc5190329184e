# ZkMigrationStateRecord of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import Message


class ZkMigrationStateRecord(Message):
    __slots__ = ("zk_migration_state",)
    NAME = "ZkMigrationStateRecord"
    API_KEY = 21
    TYPE = "metadata"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("zk_migration_state", "int8", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        zk_migration_state: int = 0,
    ) -> None:
        self.zk_migration_state = zk_migration_state

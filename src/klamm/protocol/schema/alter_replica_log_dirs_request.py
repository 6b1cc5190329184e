# AlterReplicaLogDirsRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class AlterReplicaLogDirsRequest(Message):
    __slots__ = ("dirs",)
    NAME = "AlterReplicaLogDirsRequest"
    API_KEY = 34
    TYPE = "request"
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("dirs", "[]AlterReplicaLogDir", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        dirs: list[AlterReplicaLogDir] = NEW,
    ) -> None:
        self.dirs = [] if dirs is NEW else dirs


class AlterReplicaLogDir(Message):
    __slots__ = ("path", "topics")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("path", "string", (0, 32767), None, None, None, "", False),
        ("topics", "[]AlterReplicaLogDirTopic", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        path: str = "",
        topics: list[AlterReplicaLogDirTopic] = NEW,
    ) -> None:
        self.path = path
        self.topics = [] if topics is NEW else topics


class AlterReplicaLogDirTopic(Message):
    __slots__ = ("name", "partitions")
    VERSIONS = (1, 2)
    FLEXIBLE_FROM = 2
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] = NEW,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW else partitions

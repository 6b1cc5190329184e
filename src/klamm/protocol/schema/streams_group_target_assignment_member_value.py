# StreamsGroupTargetAssignmentMemberValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class StreamsGroupTargetAssignmentMemberValue(Message):
    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks")
    NAME = "StreamsGroupTargetAssignmentMemberValue"
    API_KEY = 21
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("active_tasks", "[]TaskIds", (0, 32767), None, None, None, (), False),
        ("standby_tasks", "[]TaskIds", (0, 32767), None, None, None, (), False),
        ("warmup_tasks", "[]TaskIds", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        active_tasks: list[TaskIds] = NEW,
        standby_tasks: list[TaskIds] = NEW,
        warmup_tasks: list[TaskIds] = NEW,
    ) -> None:
        self.active_tasks = [] if active_tasks is NEW else active_tasks
        self.standby_tasks = [] if standby_tasks is NEW else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is NEW else warmup_tasks


class TaskIds(Message):
    __slots__ = ("subtopology_id", "partitions")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("subtopology_id", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] = NEW,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is NEW else partitions

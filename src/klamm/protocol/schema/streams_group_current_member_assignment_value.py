# StreamsGroupCurrentMemberAssignmentValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class StreamsGroupCurrentMemberAssignmentValue(Message):
    __slots__ = ("member_epoch", "previous_member_epoch", "state", "active_tasks", "standby_tasks", "warmup_tasks", "active_tasks_pending_revocation", "standby_tasks_pending_revocation", "warmup_tasks_pending_revocation")
    NAME = "StreamsGroupCurrentMemberAssignmentValue"
    API_KEY = 22
    TYPE = "coordinator-value"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("member_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("previous_member_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("state", "int8", (0, 32767), None, None, None, 0, False),
        ("active_tasks", "[]TaskIds", (0, 32767), None, None, None, (), False),
        ("standby_tasks", "[]TaskIds", (0, 32767), None, None, None, (), False),
        ("warmup_tasks", "[]TaskIds", (0, 32767), None, None, None, (), False),
        ("active_tasks_pending_revocation", "[]TaskIds", (0, 32767), None, None, None, (), False),
        ("standby_tasks_pending_revocation", "[]TaskIds", (0, 32767), None, None, None, (), False),
        ("warmup_tasks_pending_revocation", "[]TaskIds", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        active_tasks: list[TaskIds] = NEW,
        standby_tasks: list[TaskIds] = NEW,
        warmup_tasks: list[TaskIds] = NEW,
        active_tasks_pending_revocation: list[TaskIds] = NEW,
        standby_tasks_pending_revocation: list[TaskIds] = NEW,
        warmup_tasks_pending_revocation: list[TaskIds] = NEW,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.active_tasks = [] if active_tasks is NEW else active_tasks
        self.standby_tasks = [] if standby_tasks is NEW else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is NEW else warmup_tasks
        self.active_tasks_pending_revocation = [] if active_tasks_pending_revocation is NEW else active_tasks_pending_revocation
        self.standby_tasks_pending_revocation = [] if standby_tasks_pending_revocation is NEW else standby_tasks_pending_revocation
        self.warmup_tasks_pending_revocation = [] if warmup_tasks_pending_revocation is NEW else warmup_tasks_pending_revocation


class TaskIds(Message):
    __slots__ = ("subtopology_id", "partitions", "assignment_epochs")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("subtopology_id", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "[]int32", (0, 32767), None, None, None, (), False),
        ("assignment_epochs", "[]int32", (0, 32767), (0, 32767), 0, (0, 32767), (), False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] = NEW,
        assignment_epochs: list[int] | None = NEW,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is NEW else partitions
        self.assignment_epochs = [] if assignment_epochs is NEW else assignment_epochs

# StreamsGroupDescribeResponse of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class StreamsGroupDescribeResponse(Message):
    __slots__ = ("throttle_time_ms", "groups")
    NAME = "StreamsGroupDescribeResponse"
    API_KEY = 89
    TYPE = "response"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, None, 0, False),
        ("groups", "[]DescribedGroup", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] = NEW,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is NEW else groups


class DescribedGroup(Message):
    __slots__ = ("error_code", "error_message", "group_id", "group_state", "group_epoch", "assignment_epoch", "topology", "members", "authorized_operations")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("group_state", "string", (0, 32767), None, None, None, "", False),
        ("group_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("assignment_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("topology", "Topology", (0, 32767), (0, 32767), None, None, None, False),
        ("members", "[]Member", (0, 32767), None, None, None, (), False),
        ("authorized_operations", "int32", (0, 32767), None, None, None, -2147483648, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        topology: Topology | None = None,
        members: list[Member] = NEW,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.topology = topology
        self.members = [] if members is NEW else members
        self.authorized_operations = authorized_operations


class Topology(Message):
    __slots__ = ("epoch", "subtopologies")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("subtopologies", "[]Subtopology", (0, 32767), (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[Subtopology] | None = None,
    ) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies


class Subtopology(Message):
    __slots__ = ("subtopology_id", "source_topics", "repartition_sink_topics", "state_changelog_topics", "repartition_source_topics")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("subtopology_id", "string", (0, 32767), None, None, None, "", False),
        ("source_topics", "[]string", (0, 32767), None, None, None, (), False),
        ("repartition_sink_topics", "[]string", (0, 32767), None, None, None, (), False),
        ("state_changelog_topics", "[]TopicInfo", (0, 32767), None, None, None, (), False),
        ("repartition_source_topics", "[]TopicInfo", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] = NEW,
        repartition_sink_topics: list[str] = NEW,
        state_changelog_topics: list[TopicInfo] = NEW,
        repartition_source_topics: list[TopicInfo] = NEW,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is NEW else source_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is NEW else repartition_sink_topics
        self.state_changelog_topics = [] if state_changelog_topics is NEW else state_changelog_topics
        self.repartition_source_topics = [] if repartition_source_topics is NEW else repartition_source_topics


class TopicInfo(Message):
    __slots__ = ("name", "partitions", "replication_factor", "topic_configs")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, None, "", False),
        ("partitions", "int32", (0, 32767), None, None, None, 0, False),
        ("replication_factor", "int16", (0, 32767), None, None, None, 0, False),
        ("topic_configs", "[]KeyValue", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[KeyValue] = NEW,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is NEW else topic_configs


class KeyValue(Message):
    __slots__ = ("key", "value")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("key", "string", (0, 32767), None, None, None, "", False),
        ("value", "string", (0, 32767), None, None, None, "", False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key = key
        self.value = value


class Member(Message):
    __slots__ = ("member_id", "member_epoch", "instance_id", "rack_id", "client_id", "client_host", "topology_epoch", "process_id", "user_endpoint", "client_tags", "task_offsets", "task_end_offsets", "assignment", "target_assignment", "is_classic")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("member_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("instance_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("client_id", "string", (0, 32767), None, None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, None, "", False),
        ("topology_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("process_id", "string", (0, 32767), None, None, None, "", False),
        ("user_endpoint", "Endpoint", (0, 32767), (0, 32767), None, None, None, False),
        ("client_tags", "[]KeyValue", (0, 32767), None, None, None, (), False),
        ("task_offsets", "[]TaskOffset", (0, 32767), None, None, None, (), False),
        ("task_end_offsets", "[]TaskOffset", (0, 32767), None, None, None, (), False),
        ("assignment", "Assignment", (0, 32767), None, None, None, (), False),
        ("target_assignment", "Assignment", (0, 32767), None, None, None, (), False),
        ("is_classic", "bool", (0, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] = NEW,
        task_offsets: list[TaskOffset] = NEW,
        task_end_offsets: list[TaskOffset] = NEW,
        assignment: Assignment = NEW,
        target_assignment: Assignment = NEW,
        is_classic: bool = False,
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = [] if client_tags is NEW else client_tags
        self.task_offsets = [] if task_offsets is NEW else task_offsets
        self.task_end_offsets = [] if task_end_offsets is NEW else task_end_offsets
        self.assignment = Assignment() if assignment is NEW else assignment
        self.target_assignment = Assignment() if target_assignment is NEW else target_assignment
        self.is_classic = is_classic


class Endpoint(Message):
    __slots__ = ("host", "port")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("host", "string", (0, 32767), None, None, None, "", False),
        ("port", "uint16", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host = host
        self.port = port


class TaskOffset(Message):
    __slots__ = ("subtopology_id", "partition", "offset")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("subtopology_id", "string", (0, 32767), None, None, None, "", False),
        ("partition", "int32", (0, 32767), None, None, None, 0, False),
        ("offset", "int64", (0, 32767), None, None, None, 0, False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partition: int = 0,
        offset: int = 0,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset


class Assignment(Message):
    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks")
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

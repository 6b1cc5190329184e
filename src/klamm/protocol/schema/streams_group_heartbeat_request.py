# StreamsGroupHeartbeatRequest of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class StreamsGroupHeartbeatRequest(Message):
    __slots__ = ("group_id", "member_id", "member_epoch", "endpoint_information_epoch", "instance_id", "rack_id", "rebalance_timeout_ms", "topology", "active_tasks", "standby_tasks", "warmup_tasks", "process_id", "user_endpoint", "client_tags", "task_offsets", "task_end_offsets", "shutdown_application")
    NAME = "StreamsGroupHeartbeatRequest"
    API_KEY = 88
    TYPE = "request"
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, None, "", False),
        ("member_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("endpoint_information_epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("instance_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("rebalance_timeout_ms", "int32", (0, 32767), None, None, None, -1, False),
        ("topology", "Topology", (0, 32767), (0, 32767), None, None, None, False),
        ("active_tasks", "[]TaskIds", (0, 32767), (0, 32767), None, None, None, False),
        ("standby_tasks", "[]TaskIds", (0, 32767), (0, 32767), None, None, None, False),
        ("warmup_tasks", "[]TaskIds", (0, 32767), (0, 32767), None, None, None, False),
        ("process_id", "string", (0, 32767), (0, 32767), None, None, None, False),
        ("user_endpoint", "Endpoint", (0, 32767), (0, 32767), None, None, None, False),
        ("client_tags", "[]KeyValue", (0, 32767), (0, 32767), None, None, None, False),
        ("task_offsets", "[]TaskOffset", (0, 32767), (0, 32767), None, None, None, False),
        ("task_end_offsets", "[]TaskOffset", (0, 32767), (0, 32767), None, None, None, False),
        ("shutdown_application", "bool", (0, 32767), None, None, None, False, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: Topology | None = None,
        active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None,
        warmup_tasks: list[TaskIds] | None = None,
        process_id: str | None = None,
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] | None = None,
        task_offsets: list[TaskOffset] | None = None,
        task_end_offsets: list[TaskOffset] | None = None,
        shutdown_application: bool = False,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.endpoint_information_epoch = endpoint_information_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology = topology
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.shutdown_application = shutdown_application


class Topology(Message):
    __slots__ = ("epoch", "subtopologies")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("epoch", "int32", (0, 32767), None, None, None, 0, False),
        ("subtopologies", "[]Subtopology", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[Subtopology] = NEW,
    ) -> None:
        self.epoch = epoch
        self.subtopologies = [] if subtopologies is NEW else subtopologies


class Subtopology(Message):
    __slots__ = ("subtopology_id", "source_topics", "source_topic_regex", "state_changelog_topics", "repartition_sink_topics", "repartition_source_topics", "copartition_groups")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("subtopology_id", "string", (0, 32767), None, None, None, "", False),
        ("source_topics", "[]string", (0, 32767), None, None, None, (), False),
        ("source_topic_regex", "[]string", (0, 32767), None, None, None, (), False),
        ("state_changelog_topics", "[]TopicInfo", (0, 32767), None, None, None, (), False),
        ("repartition_sink_topics", "[]string", (0, 32767), None, None, None, (), False),
        ("repartition_source_topics", "[]TopicInfo", (0, 32767), None, None, None, (), False),
        ("copartition_groups", "[]CopartitionGroup", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] = NEW,
        source_topic_regex: list[str] = NEW,
        state_changelog_topics: list[TopicInfo] = NEW,
        repartition_sink_topics: list[str] = NEW,
        repartition_source_topics: list[TopicInfo] = NEW,
        copartition_groups: list[CopartitionGroup] = NEW,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is NEW else source_topics
        self.source_topic_regex = [] if source_topic_regex is NEW else source_topic_regex
        self.state_changelog_topics = [] if state_changelog_topics is NEW else state_changelog_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is NEW else repartition_sink_topics
        self.repartition_source_topics = [] if repartition_source_topics is NEW else repartition_source_topics
        self.copartition_groups = [] if copartition_groups is NEW else copartition_groups


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


class CopartitionGroup(Message):
    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics")
    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0
    FIELDS = (
        ("source_topics", "[]int16", (0, 32767), None, None, None, (), False),
        ("source_topic_regex", "[]int16", (0, 32767), None, None, None, (), False),
        ("repartition_source_topics", "[]int16", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        source_topics: list[int] = NEW,
        source_topic_regex: list[int] = NEW,
        repartition_source_topics: list[int] = NEW,
    ) -> None:
        self.source_topics = [] if source_topics is NEW else source_topics
        self.source_topic_regex = [] if source_topic_regex is NEW else source_topic_regex
        self.repartition_source_topics = [] if repartition_source_topics is NEW else repartition_source_topics


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

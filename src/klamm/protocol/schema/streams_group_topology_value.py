# StreamsGroupTopologyValue of Apache Kafka 4.3.0, written by tools/generate_schema.py. Do not edit.
from __future__ import annotations

from klamm.protocol.message import NEW, Message


class StreamsGroupTopologyValue(Message):
    __slots__ = ("epoch", "subtopologies")
    NAME = "StreamsGroupTopologyValue"
    API_KEY = 23
    TYPE = "coordinator-value"
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
        ("topic_configs", "[]TopicConfig", (0, 32767), None, None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[TopicConfig] = NEW,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is NEW else topic_configs


class TopicConfig(Message):
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

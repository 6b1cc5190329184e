"""Conversations about topics: Metadata, CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions."""

from __future__ import annotations

from tests.interop.wire_conversations.talk import Talk, conversation

from klamm.protocol.api import ApiKey
from klamm.protocol.schema.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from klamm.protocol.schema.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.schema.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic

STRANGE_ID = b"\x07" * 16
NO_TIME = (0, -1, -(2**31))
"""Timeouts that are over when the request arrives."""
BAD_NAMES = ("", ".", "..", "a b", "ä", "x" * 250, "a/b")


def metadata_of(*names: str, creation: bool = False, operations: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=creation,
        include_topic_authorized_operations=operations,
        include_cluster_authorized_operations=operations,
    )


@conversation(ApiKey.METADATA)
def metadata(talk: Talk) -> None:
    """Requests the metadata of all topics, none, some, one twice, and with authorized operations."""
    one, two = talk.shared_topic("a"), talk.shared_topic("b", 3)
    talk.ask(MetadataRequest(topics=None if talk.version else []))
    if talk.version:
        talk.ask(MetadataRequest(topics=[]))
    talk.ask(metadata_of(two.name, one.name))
    talk.ask(metadata_of(two.name, two.name))
    talk.ask(metadata_of(one.name, operations=True))
    talk.ask(metadata_of("__consumer_offsets"))


@conversation(ApiKey.METADATA, since=4)
def metadata_of_unknown_topics(talk: Talk) -> None:
    """Requests the metadata of topics that don't exist, and of invalid topic names."""
    talk.ask(metadata_of(talk.name("absent"), operations=True))
    for name in BAD_NAMES:
        talk.ask(metadata_of(name, creation=True))
        talk.ask(metadata_of(name, operations=True))
    talk.ask(metadata_of("__transaction_state"))


@conversation(ApiKey.METADATA, since=4)
def auto_creation(talk: Talk) -> None:
    """Requests the metadata of a topic that the request creates, before and after the creation is in effect."""
    name = talk.name("new")
    talk.ask(metadata_of(name, creation=True))
    talk.peer.settle()
    talk.ask(metadata_of(name, creation=True))


@conversation(ApiKey.METADATA, since=10)
def metadata_by_id(talk: Talk) -> None:
    """Requests the metadata of topics by id, by an unknown id, and by name and id."""
    topic = talk.shared_topic("a", 2)

    def ask(*topics: MetadataRequestTopic, operations: bool = False) -> None:
        request = MetadataRequest(topics=list(topics), include_topic_authorized_operations=operations)
        talk.ask(request)

    ask(MetadataRequestTopic(topic_id=topic.topic_id, name=None))
    ask(MetadataRequestTopic(topic_id=topic.topic_id, name=None), MetadataRequestTopic(topic_id=STRANGE_ID, name=None))
    ask(MetadataRequestTopic(topic_id=STRANGE_ID, name=None), operations=True)
    ask(MetadataRequestTopic(topic_id=topic.topic_id, name=topic.name))
    ask(MetadataRequestTopic(topic_id=topic.topic_id, name=talk.name("b")))
    ask(MetadataRequestTopic(topic_id=topic.topic_id, name=None), MetadataRequestTopic(name=topic.name))


@conversation(ApiKey.METADATA, since=12)
def metadata_by_neither_name_nor_id(talk: Talk) -> None:
    """Requests the metadata of a topic with a null name and without an id."""
    talk.ask(MetadataRequest(topics=[MetadataRequestTopic(name=None)]))


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


def wish(
    name: str,
    partitions: int = 1,
    replication: int = 1,
    assignments: dict[int, list[int]] | None = None,
    **configs: str | None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


@conversation(ApiKey.CREATE_TOPICS)
def create_topics(talk: Talk) -> None:
    """Creates valid topics with numbers, assignments and configs, validates topics, and repeats existing topics."""
    talk.ask(create(wish(talk.name("a"), 2)))
    talk.ask(create(wish(talk.name("b"), -1, -1, {0: [1], 1: [1]})))
    talk.ask(create(wish(talk.name("c"), 1, 1, None, retention_ms="7000", cleanup_policy="compact,delete")))
    talk.ask(create(wish(talk.name("d")), validate_only=True))
    talk.ask(create(wish(talk.name("d")), wish(talk.name("e"))))
    talk.ask(create(wish(talk.name("a"))))
    talk.ask(create(wish(talk.name("a"), 0, 9), validate_only=True))
    talk.ask(create())
    if talk.version >= 4:
        talk.ask(create(wish(talk.name("f"), -1, -1)))
    talk.peer.settle()
    talk.ask(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)


@conversation(ApiKey.CREATE_TOPICS)
def create_bad_topics(talk: Talk) -> None:
    """Creates topics with invalid numbers, assignments, configs and names."""
    name = talk.name("a")
    for partitions, replication in ((0, 1), (-2, 1), (-1, -1), (1, 0), (1, 2), (1, -2), (-1, 1), (1, -1)):
        talk.ask(create(wish(name, partitions, replication), validate_only=True))
    assignments: list[dict[int, list[int]]] = [
        {0: [2]},
        {0: [1, 1]},
        {0: []},
        {1: [1]},
        {0: [1], 2: [1]},
        {0: [-1]},
        {0: [1, 2]},
        {-1: [1]},
    ]
    for assignment in assignments:
        talk.ask(create(wish(name, -1, -1, assignment)))
    talk.ask(create(wish(name, 1, 1, {0: [1]})))
    talk.ask(create(wish(name, 1, -1, {0: [1]})))
    talk.ask(create(wish(name, -1, 1, {0: [1]})))
    configs: list[dict[str, str | None]] = [
        {"retention_ms": "soon"},
        {"no_such_key": "1"},
        {"retention_ms": None},
        {"retention_ms": ""},
        {"cleanup_policy": "never"},
        {"segment_bytes": "1"},
        {"compression_type": "zip"},
        {"min_compaction_lag_ms": "10", "max_compaction_lag_ms": "5"},
        {"min_insync_replicas": "0"},
        {"local_retention_ms": "9999999999999"},
    ]
    for config in configs:
        talk.ask(create(wish(name, 1, 1, None, **config), validate_only=True))
    for bad in BAD_NAMES:
        talk.ask(create(wish(bad)))
    talk.ask(create(wish("__cluster_metadata")))


@conversation(ApiKey.CREATE_TOPICS)
def create_topics_twice(talk: Talk) -> None:
    """Creates topics with repeated names, configs and partitions, with names that collide in metrics, and valid and
    invalid topics together."""
    talk.ask(create(wish(talk.name("a")), wish(talk.name("b")), wish(talk.name("a"), 2)))
    talk.ask(create(wish(talk.name("c.d")), wish(talk.name("e"), 0)))
    talk.peer.settle()
    talk.ask(create(wish(talk.name("c_d"))))
    duplicated = wish(talk.name("f"))
    duplicated.configs = [
        CreatableTopicConfig(name="retention.ms", value="1"),
        CreatableTopicConfig(name="retention.ms", value="2"),
    ]
    talk.ask(create(duplicated))
    repeated = wish(talk.name("g"), -1, -1)
    repeated.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1]) for _ in range(2)]
    talk.ask(create(repeated))


@conversation(ApiKey.CREATE_TOPICS)
def create_topics_without_time(talk: Talk) -> None:
    """Creates new, existing and invalid topics, one twice, and no topics, with a timeout that is over. Nothing is
    created."""
    name, present = talk.name("a"), talk.topic("b").name

    def ask(timeout_ms: int, *topics: CreatableTopic, validate_only: bool = False) -> None:
        talk.ask(CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only))

    for timeout_ms in NO_TIME:
        ask(timeout_ms, wish(name))
    ask(0, wish(name), wish(present), wish("a b"))
    ask(0, wish(name), validate_only=True)
    ask(0, wish(name), wish(name), wish(talk.name("c")))
    ask(0, wish(name), wish(name))
    ask(0, wish("__cluster_metadata"))
    ask(0)
    talk.peer.settle()
    talk.ask(metadata_of(name, talk.name("c")), 9)


@conversation(ApiKey.CREATE_TOPICS)
def create_internal_topics(talk: Talk) -> None:
    """Creates internal topics of the broker."""
    talk.ask(create(wish("__consumer_offsets")))
    talk.ask(create(wish("__transaction_state"), validate_only=True))


@conversation(ApiKey.DELETE_TOPICS)
def delete_topics(talk: Talk) -> None:
    """Deletes a topic that exists, one that doesn't, both, and a topic twice."""
    one, two, three = (talk.topic(name) for name in "abc")

    def delete(*names: str) -> None:
        topics = [DeleteTopicState(name=name) for name in names]
        talk.ask(DeleteTopicsRequest(topic_names=list(names), topics=topics, timeout_ms=10_000))

    delete(one.name)
    talk.peer.settle()
    delete(one.name)
    delete(talk.name("absent"), two.name)
    delete(three.name, three.name)
    delete(three.name, three.name, talk.name("absent"))
    delete()
    delete("", "a b")
    delete(three.name)
    talk.peer.settle()
    talk.ask(metadata_of(one.name, two.name, three.name), 9)


@conversation(ApiKey.DELETE_TOPICS, since=6)
def delete_topics_by_id(talk: Talk) -> None:
    """Deletes topics by id, by an unknown id, by name and id, by neither, and one topic by name and then by id."""
    one, two, three = (talk.topic(name) for name in "abc")

    def delete(*topics: DeleteTopicState) -> None:
        talk.ask(DeleteTopicsRequest(topics=list(topics), timeout_ms=10_000))

    delete(DeleteTopicState(topic_id=STRANGE_ID))
    delete(DeleteTopicState(topic_id=one.topic_id))
    delete(DeleteTopicState(name=two.name, topic_id=two.topic_id))
    delete(DeleteTopicState())
    delete(DeleteTopicState(topic_id=two.topic_id), DeleteTopicState(topic_id=two.topic_id))
    delete(DeleteTopicState(topic_id=two.topic_id), DeleteTopicState(name=two.name))
    delete(
        DeleteTopicState(topic_id=STRANGE_ID), DeleteTopicState(name=three.name), DeleteTopicState(name=talk.name("x"))
    )
    talk.peer.settle()
    talk.ask(metadata_of(one.name, two.name, three.name), 9)


@conversation(ApiKey.DELETE_TOPICS)
def delete_topics_without_time(talk: Talk) -> None:
    """Deletes a topic that exists and others that don't, one twice, and no topics, with a timeout that is over. Nothing
    is deleted."""
    one = talk.topic("a")

    def ask(timeout_ms: int, *topics: DeleteTopicState) -> None:
        names = [topic.name for topic in topics if topic.name is not None]
        talk.ask(DeleteTopicsRequest(topic_names=names, topics=list(topics), timeout_ms=timeout_ms))

    named = DeleteTopicState(name=one.name)
    for timeout_ms in NO_TIME:
        ask(timeout_ms, named)
    ask(0, named, DeleteTopicState(name=talk.name("absent")))
    ask(0, DeleteTopicState(name=talk.name("absent")))
    ask(0, named, named, DeleteTopicState(name=talk.name("absent")))
    ask(0, named, named)
    ask(0)
    if talk.version >= 6:
        ask(0, DeleteTopicState(topic_id=one.topic_id))
        ask(0, DeleteTopicState(topic_id=STRANGE_ID), named)
        ask(0, DeleteTopicState(name=one.name, topic_id=one.topic_id), DeleteTopicState())
    talk.peer.settle()
    talk.ask(metadata_of(one.name), 9)


@conversation(ApiKey.CREATE_PARTITIONS)
def create_partitions(talk: Talk) -> None:
    """Sets a larger, equal and smaller number of partitions, with valid and invalid assignments, and for unknown
    topics."""
    topic = talk.topic("a", 2)

    def grow(*topics: CreatePartitionsTopic, validate_only: bool = False) -> None:
        request = CreatePartitionsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)
        talk.ask(request)

    def to(count: int, *assignments: list[int], name: str = topic.name) -> CreatePartitionsTopic:
        listed = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
        return CreatePartitionsTopic(name=name, count=count, assignments=listed or None)

    grow(to(3), validate_only=True)
    grow(to(3))
    for count in (3, 2, 0, -1):
        grow(to(count))
    grow(to(5, [1], [1]))
    wrong: list[list[list[int]]] = [
        [[1]],
        [[1], [1], [1]],
        [[2], [1]],
        [[], []],
        [[1, 1], [1, 1]],
        [[1, 2], [1, 2]],
        [[-1], [1]],
    ]
    for assignments in wrong:
        grow(to(7, *assignments))
    grow(CreatePartitionsTopic(name=topic.name, count=6, assignments=[]))
    grow(to(4, name=talk.name("absent")))
    grow(to(4, name="a b"), to(4, name=""))
    grow(to(8), to(9))
    grow(to(8), to(4, name=talk.name("absent")))
    grow()
    grow(to(20_000), validate_only=True)
    talk.peer.settle()
    talk.ask(metadata_of(topic.name), 9)


@conversation(ApiKey.CREATE_PARTITIONS)
def create_partitions_without_time(talk: Talk) -> None:
    """Adds partitions to a topic that exists and to one that doesn't, to one twice, and to no topics, with a timeout
    that is over. Nothing is added."""
    topic = talk.topic("a", 2)

    def ask(timeout_ms: int, *names: str, validate_only: bool = False) -> None:
        topics = [CreatePartitionsTopic(name=name, count=3, assignments=None) for name in names]
        talk.ask(CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only))

    for timeout_ms in NO_TIME:
        ask(timeout_ms, topic.name)
    ask(0, topic.name, talk.name("absent"))
    ask(0, topic.name, validate_only=True)
    ask(0, topic.name, topic.name, talk.name("absent"))
    ask(0, topic.name, topic.name)
    ask(0)
    talk.peer.settle()
    talk.ask(metadata_of(topic.name), 9)


@conversation(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def describe_topic_partitions(talk: Talk) -> None:
    """Describes partitions with pages, cursors and limits, and of topics that don't exist."""
    names = [talk.topic(name, partitions).name for name, partitions in (("a", 3), ("b", 1), ("c", 2))]

    def describe(*topics: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> None:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in topics],
            response_partition_limit=limit,
            cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )
        talk.ask(request)

    describe(*names)
    describe(*reversed(names), names[0])
    for limit in (4, 3, 2, 1, 0, -1):
        describe(*names, limit=limit)
    describe(*names, cursor=(names[0], 1))
    describe(*names, cursor=(names[0], 3))
    describe(*names, cursor=(names[0], 9), limit=1)
    describe(*names, cursor=(names[1], 0), limit=1)
    describe(*names, cursor=(names[1], -1))
    describe(*names[:2], cursor=(names[2], 0))
    describe(*names, cursor=(talk.name("absent"), 0))
    describe(talk.name("absent"), names[1], talk.name("zzz"))
    describe(talk.name("absent"), cursor=(talk.name("absent"), 3))
    describe(*names, talk.name("absent"), limit=3)
    describe("a b", "ä")


@conversation(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def describe_partitions_of_a_topic_without_a_name(talk: Talk) -> None:
    """Describes the partitions of a topic with an empty name."""
    talk.ask(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="")]))

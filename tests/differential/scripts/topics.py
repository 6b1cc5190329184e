"""Topics with replicas: creation, growth, description, and every refusal."""

from __future__ import annotations

from typing import Any

from tests.differential.script import Run, script

from klamm.protocol.api import ApiKey
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.describe_configs_response import DescribeConfigsResponse

_TOPIC_CONFIG, _BROKER_CONFIG = 2, 4
_DESCRIBE = ApiKey.DESCRIBE_TOPIC_PARTITIONS


def _create(
    run: Run,
    label: str,
    *assignments: tuple[int, list[int]],
    partitions: int = -1,
    factor: int = -1,
    validate: bool = False,
    **configs: str,
) -> None:
    """Tries to create a topic that is called like the step."""
    topic = {
        "name": f"{run.name}-{label.replace(' ', '-').replace(':', '')}",
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": [{"partition_index": index, "broker_ids": brokers} for index, brokers in assignments],
        "configs": [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()],
    }
    answer = run.call(ApiKey.CREATE_TOPICS, topics=[topic], timeout_ms=30_000, validate_only=validate)
    for each in answer.topics:  # other tests compare the configs
        each.configs = [config for config in each.configs or [] if config.name in ("min.insync.replicas", *configs)]
    run.record(label, ApiKey.CREATE_TOPICS, answer)


@script
def create_topics(run: Run) -> None:
    """Topics are created with replicas that the client or the cluster chooses, and refused for the same reasons."""
    _create(run, "assigned", (0, [2, 3]), (1, [3, 1]))
    _create(run, "assigned out of order", (1, [1, 2]), (0, [2, 3]))
    _create(run, "assigned to one", (0, [3]))
    _create(run, "only validated", (0, [1, 2, 3]), validate=True)
    _create(run, "factor 3", partitions=2, factor=3)
    _create(run, "default factor", partitions=1)
    _create(run, "default of both")
    _create(run, "factor and config", partitions=1, factor=2, min_insync_replicas="2")
    _create(run, "unknown broker", (0, [1, 9]))
    _create(run, "one broker twice", (0, [1, 1]))
    _create(run, "negative broker", (0, [1, -1]))
    _create(run, "other lengths", (0, [1, 2]), (1, [1]))
    _create(run, "no replicas", (0, []))
    _create(run, "partition missing", (0, [1]), (2, [1]))
    _create(run, "partition not from 0", (1, [1]))
    _create(run, "partition twice", (0, [1]), (0, [2]))
    _create(run, "negative partition", (-1, [1]))
    _create(run, "assignment and partitions", (0, [1]), partitions=1)
    _create(run, "assignment and factor", (0, [1]), factor=1)
    _create(run, "factor 4", partitions=1, factor=4)
    _create(run, "factor 0", partitions=1, factor=0)
    _create(run, "factor -2", partitions=1, factor=-2)
    _create(run, "0 partitions", partitions=0, factor=3)
    _create(run, "-2 partitions", partitions=-2, factor=3)
    _create(run, "unknown broker, only validated", (0, [9]), validate=True)
    _create(run, "min insync replicas 0", (0, [1]), min_insync_replicas="0")
    _create(run, "more min insync replicas than replicas", (0, [1]), min_insync_replicas="5")
    existing = run.topic("existing")
    again = {"name": existing, "num_partitions": 1, "replication_factor": 1}
    run.ask("existing topic", ApiKey.CREATE_TOPICS, topics=[again], timeout_ms=30_000)
    name = f"{run.name}-twice"
    one = {"name": name, "num_partitions": 1, "replication_factor": 1}
    run.ask("one name twice", ApiKey.CREATE_TOPICS, topics=[one, one], timeout_ms=30_000)
    run.ask("no topics", ApiKey.CREATE_TOPICS, topics=[], timeout_ms=30_000)


@script
def create_partitions(run: Run) -> None:
    """Partitions are added with replicas that the client or the cluster chooses, and refused for the same reasons."""
    topic = run.topic(replicas=(1, 2))

    def grow(label: str, count: int, *assignments: list[int], validate: bool = False, name: str = topic) -> None:
        wanted: dict[str, object] = {"name": name, "count": count}
        if assignments:
            wanted["assignments"] = [{"broker_ids": brokers} for brokers in assignments]
        run.ask(label, ApiKey.CREATE_PARTITIONS, topics=[wanted], timeout_ms=30_000, validate_only=validate)

    grow("only validated", 3, [2, 3], [3, 1], validate=True)
    grow("assigned", 3, [2, 3], [3, 1])
    run.wait_for_partition(topic, 2, lambda found: found.leader_id == 3)
    run.ask("after the growth", ApiKey.METADATA, topics=[{"name": topic}])
    grow("as many", 3)
    grow("fewer", 2)
    grow("0", 0)
    grow("too few assignments", 5, [1, 2])
    grow("too many assignments", 4, [1, 2], [2, 3])
    grow("other factor", 4, [1])
    grow("other factors", 5, [1, 2], [1])
    grow("unknown broker", 4, [1, 9])
    grow("one broker twice", 4, [1, 1])
    grow("negative broker", 4, [1, -1])
    grow("no replicas", 4, [])
    grow("unknown topic", 4, name=f"{run.name}-none")
    grow("not assigned", 4)
    same = {"name": topic, "count": 9}
    run.ask("topic twice", ApiKey.CREATE_PARTITIONS, topics=[same, same], timeout_ms=30_000)


@script
def describe_topics(run: Run) -> None:
    """Every broker describes topics with their replicas, leaders, configs and log directories."""
    topic = run.topic(replicas=(2, 3, 1), partitions=2, min_insync_replicas="2")
    run.topic("other", replicas=(3,))
    for broker in (1, 2, 3):
        run.ask(f"Metadata of broker {broker}", ApiKey.METADATA, broker=broker, topics=[{"name": topic}])
    run.ask("Metadata of an unknown topic", ApiKey.METADATA, topics=[{"name": f"{run.name}-none"}])
    run.ask("DescribeTopicPartitions", _DESCRIBE, topics=[{"name": topic}])
    run.ask("DescribeTopicPartitions, 1 partition", _DESCRIBE, topics=[{"name": topic}], response_partition_limit=1)
    cursor = {"topic_name": topic, "partition_index": 1}
    run.ask("DescribeTopicPartitions from a cursor", _DESCRIBE, topics=[{"name": topic}], cursor=cursor)
    run.ask("DescribeTopicPartitions of an unknown topic", _DESCRIBE, topics=[{"name": f"{run.name}-none"}])
    run.ask("DescribeCluster", ApiKey.DESCRIBE_CLUSTER)
    run.ask("DescribeCluster with fenced brokers", ApiKey.DESCRIBE_CLUSTER, include_fenced_brokers=True)
    run.ask("DescribeCluster of controllers", ApiKey.DESCRIBE_CLUSTER, endpoint_type=2)
    wanted = [{"topic": topic, "partitions": [0, 1, 7]}]
    for broker in (1, 3):
        run.ask(f"DescribeLogDirs of broker {broker}", ApiKey.DESCRIBE_LOG_DIRS, broker=broker, topics=wanted)
    run.ask(
        "DescribeLogDirs elsewhere",
        ApiKey.DESCRIBE_LOG_DIRS,
        topics=[{"topic": f"{run.name}-other", "partitions": [0]}],
    )
    _describe_configs(run, "configs of the topic", _TOPIC_CONFIG, topic, "2")
    _describe_configs(run, "configs of an unknown topic", _TOPIC_CONFIG, f"{run.name}-none")
    _describe_configs(run, "configs of another broker", _BROKER_CONFIG, "2")
    _describe_configs(run, "configs of an unknown broker", _BROKER_CONFIG, "9")
    _describe_configs(run, "configs of no broker", _BROKER_CONFIG, "x")


def _describe_configs(run: Run, label: str, kind: int, name: str, value: str | None = None) -> None:
    """Describes min.insync.replicas of a topic or broker; waits until it has this value."""
    keys = ["min.insync.replicas"]
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}

    def is_known(answer: DescribeConfigsResponse) -> bool:
        configs = answer.results[0].configs or []
        return value is None or any(config.value == value for config in configs)

    run.ask_until(label, is_known, ApiKey.DESCRIBE_CONFIGS, resources=[resource], include_synonyms=True)


def _alter(run: Run, label: str, kind: int, name: str, value: str | None, *, operation: int = 0) -> None:
    config = {"name": "min.insync.replicas", "config_operation": operation, "value": value}
    resource = {"resource_type": kind, "resource_name": name, "configs": [config]}
    run.ask(label, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[resource])


@script
def min_insync_replicas(run: Run) -> None:
    """min.insync.replicas is changed for a topic, and refused for brokers that don't exist."""
    topic = run.topic(replicas=(2, 3, 1))
    _alter(run, "2 for the topic", _TOPIC_CONFIG, topic, "2")
    _alter(run, "0 for the topic", _TOPIC_CONFIG, topic, "0")
    _alter(run, "a word for the topic", _TOPIC_CONFIG, topic, "two")
    _alter(run, "null for the topic", _TOPIC_CONFIG, topic, None)
    _alter(run, "appended for the topic", _TOPIC_CONFIG, topic, "1", operation=2)
    _alter(run, "an unknown topic", _TOPIC_CONFIG, f"{run.name}-none", "2")
    _alter(run, "an unknown broker", _BROKER_CONFIG, "9", "2")
    _alter(run, "a broker without a number", _BROKER_CONFIG, "x", "2")
    _alter(run, "another broker", _BROKER_CONFIG, "2", "2")
    _alter(run, "all brokers, 0", _BROKER_CONFIG, "", "0")
    _describe_configs(run, "configs of the topic", _TOPIC_CONFIG, topic, "2")
    _alter(run, "the default for the topic", _TOPIC_CONFIG, topic, None, operation=1)
    _describe_configs(run, "configs after the removal", _TOPIC_CONFIG, topic, "1")


@script
def changes_through_other_brokers(run: Run) -> None:
    """Each change is sent to the broker after the one that has made the last change, without a pause in between."""
    name = f"{run.name}-t"
    topic = {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [{"partition_index": 0, "broker_ids": [1, 2]}],
        "configs": [],
    }
    config = {"name": "retention.ms", "config_operation": 0, "value": "70000"}
    resource = {"resource_type": _TOPIC_CONFIG, "resource_name": name, "configs": [config]}
    move = {"name": name, "partitions": [{"partition_index": 1, "replicas": [2, 1]}]}
    requests: tuple[tuple[str, ApiKey, dict[str, Any]], ...] = (
        ("creation", ApiKey.CREATE_TOPICS, {"topics": [topic]}),
        ("validation", ApiKey.CREATE_TOPICS, {"topics": [topic], "validate_only": True}),
        (
            "growth",
            ApiKey.CREATE_PARTITIONS,
            {"topics": [{"name": name, "count": 2, "assignments": [{"broker_ids": [1, 2]}]}]},
        ),
        ("settings", ApiKey.INCREMENTAL_ALTER_CONFIGS, {"resources": [resource]}),
        ("another order", ApiKey.ALTER_PARTITION_REASSIGNMENTS, {"topics": [move]}),
        ("election", ApiKey.ELECT_LEADERS, {"topic_partitions": [{"topic": name, "partitions": [0, 1, 2]}]}),
        ("deletion", ApiKey.DELETE_TOPICS, {"topics": [{"name": name}]}),
    )
    for turn in range(4 * len(requests)):
        label, api, fields = requests[turn % len(requests)]
        timeout: dict[str, Any] = {} if api is ApiKey.INCREMENTAL_ALTER_CONFIGS else {"timeout_ms": 30_000}
        answer = run.call(api, broker=1 + turn % 3, **fields, **timeout)
        if isinstance(answer, CreateTopicsResponse):
            answer.topics[0].configs = []  # other tests compare them
        run.record(f"{label} {turn // len(requests) + 1}", api, answer)

"""Tests CreateTopics: the created topics, the content of the answer, and refused topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.steps import finished

from klamm.broker.handlers import create_topics
from klamm.config.broker_config import BrokerConfig
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from klamm.protocol.schema.create_topics_response import CreatableTopicResult, CreateTopicsResponse

Serve = Callable[[BrokerConfig], AbstractAsyncContextManager[Any]]


def topic(name: str, partitions: int = -1, **configs: str | None) -> CreatableTopic:
    """Returns a topic to create; an underscore in a config name stands for a dot."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


async def create(
    broker: Any, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> dict[str, CreatableTopicResult]:
    """Returns the results by name, and checks that no name appears twice."""
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    response: CreateTopicsResponse = await finished(create_topics.handle(broker.request(version), request))
    results = {result.name: result for result in response.topics}
    assert len(results) == len(response.topics)
    return results


def test_the_answer_tells_what_was_made(serve_metadata: Serve) -> None:
    """The answer has the topic's id, its partitions, its replication factor, and every config with its source."""

    async def scenario() -> None:
        config = BrokerConfig(num_partitions=3, explicit={"log.segment.bytes": "2000000", "log.retention.hours": "1"})
        async with serve_metadata(config) as broker:
            await broker.metadata.alter_configs({(4, ""): {"log.segment.bytes": "3000000"}})
            await broker.metadata.alter_configs({(4, "1"): {"log.cleaner.delete.retention.ms": "5"}})
            result = (await create(broker, topic("t", cleanup_policy="compact")))["t"]
            assert (result.error_code, result.error_message) == (0, None)
            assert result.topic_id == broker.metadata.image.topics["t"].topic_id
            assert (result.num_partitions, result.replication_factor) == (3, 1)
            assert result.configs is not None
            told = {each.name: (each.value, each.config_source) for each in result.configs}
            assert [each.name for each in result.configs] == sorted(told)
            assert told["cleanup.policy"] == ("compact", 1)
            assert told["delete.retention.ms"] == ("5", 2)
            assert told["segment.bytes"] == ("3000000", 3)
            assert told["retention.ms"] == ("3600000", 4)
            assert told["compression.type"] == ("producer", 5)
            assert "internal.segment.bytes" not in told
            assert not any(each.read_only or each.is_sensitive for each in result.configs)

    asyncio.run(scenario())


def test_configs_are_told_without_overrides_too(serve_metadata: Serve) -> None:
    """The answer has configs even if the topic overrides none; Java's admin client fails on a success without
    configs."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            result = (await create(broker, topic("t"), version=5))["t"]
            assert result.configs
            sources = {each.name: each.config_source for each in result.configs}
            assert sources.pop("min.insync.replicas") == 3
            assert set(sources.values()) == {5}

    asyncio.run(scenario())


def test_each_topic_succeeds_or_fails_by_itself(serve_metadata: Serve) -> None:
    """Each topic succeeds or fails separately with Kafka's code and message; a repeated name and Kafka's metadata
    topic are refused."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await create(broker, topic("old"))
            results = await create(
                broker,
                topic("new", 2),
                topic("old"),
                topic("twice"),
                topic("twice"),
                topic("__cluster_metadata"),
                topic("not legal"),
                topic("null", retention_ms=None),
                topic("unknown", no_such_key="1"),
                topic("bad", retention_ms="-2"),
                topic("long", follower_replication_throttled_replicas="1" * 40_000),
            )
            assert {name: (ErrorCode(r.error_code), r.error_message) for name, r in results.items()} == {
                "new": (ErrorCode.NONE, None),
                "old": (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists."),
                "twice": (ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
                "__cluster_metadata": (
                    ErrorCode.INVALID_REQUEST,
                    "Creation of internal topic __cluster_metadata is prohibited.",
                ),
                "not legal": (
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    "Topic name is invalid: 'not legal' contains one or more characters other than ASCII "
                    "alphanumerics, '.', '_' and '-'",
                ),
                "null": (ErrorCode.INVALID_CONFIG, "Null value not supported for topic configs: retention.ms"),
                "unknown": (ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such.key"),
                "bad": (
                    ErrorCode.INVALID_CONFIG,
                    "Invalid value -2 for configuration retention.ms: Value must be at least -1",
                ),
                "long": (
                    ErrorCode.INVALID_CONFIG,
                    "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
                ),
            }
            assert broker.metadata.image.topics.keys() == {"old", "new"}
            assert len(broker.metadata.image.topics["new"].partitions) == 2

    asyncio.run(scenario())


def test_replicas_can_be_assigned_by_hand(serve_metadata: Serve) -> None:
    """Replicas can be assigned by partition, and an assignment to an unknown broker is refused."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            wanted_change = topic("t")
            wanted_change.assignments = [CreatableReplicaAssignment(partition_index=i, broker_ids=[1]) for i in (1, 0)]
            assert (await create(broker, wanted_change))["t"].num_partitions == 2
            wanted_change.name = "u"
            wanted_change.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[2])]
            assert (await create(broker, wanted_change))["u"].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    asyncio.run(scenario())


def test_a_dry_run_makes_nothing(serve_metadata: Serve) -> None:
    """`validate_only` answers what would be created or refused, and creates nothing."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            results = await create(broker, topic("t", 4), topic("bad", 0), validate_only=True)
            assert results["t"].num_partitions == 4
            assert results["t"].configs
            assert results["bad"].error_code == ErrorCode.INVALID_PARTITIONS
            assert broker.metadata.image.topics == {}

    asyncio.run(scenario())


def test_too_many_partitions_refuse_the_request(serve_metadata: Serve) -> None:
    """A request with too many partitions is refused as a whole, with POLICY_VIOLATION for every topic."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            with pytest.raises(KafkaError) as caught:
                await create(broker, topic("a"), topic("b", 10_000))
            request = CreateTopicsRequest(topics=[topic("a"), topic("b", 10_000)])
            response = create_topics.error_response(request, 7, caught.value.code, caught.value.message)
            assert [(r.name, r.error_code, r.error_message) for r in response.topics] == [
                ("a", ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."),
                ("b", ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."),
            ]

    asyncio.run(scenario())

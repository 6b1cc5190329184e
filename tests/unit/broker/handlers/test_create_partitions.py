"""Tests CreatePartitions, which adds partitions to topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from tests.support.steps import finished

from klamm.broker.handlers import create_partitions
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from klamm.protocol.schema.create_partitions_response import CreatePartitionsTopicResult

Serve = Callable[[BrokerConfig], AbstractAsyncContextManager[Any]]


def test_each_topic_succeeds_or_fails_by_itself(serve_metadata: Serve) -> None:
    """Each topic succeeds or fails separately with Kafka's code and message, and a topic that is named twice is
    refused."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await broker.metadata.create_topics([NewTopic(name) for name in ("a", "b", "c", "d")])
            request = CreatePartitionsRequest(
                topics=[
                    CreatePartitionsTopic(name="a", count=3, assignments=None),
                    CreatePartitionsTopic(name="b", count=1, assignments=None),
                    CreatePartitionsTopic(name="c", count=2, assignments=None),
                    CreatePartitionsTopic(name="c", count=3, assignments=None),
                    CreatePartitionsTopic(name="d", count=2, assignments=[CreatePartitionsAssignment(broker_ids=[1])]),
                    CreatePartitionsTopic(name="unknown", count=2, assignments=None),
                ],
                timeout_ms=10_000,
            )
            response = await finished(create_partitions.handle(broker.request(3), request))
            assert sorted((r.name, int(r.error_code), r.error_message) for r in response.results) == [
                ("a", 0, None),
                ("b", ErrorCode.INVALID_PARTITIONS, "Topic already has 1 partition(s)."),
                ("c", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
                ("d", 0, None),
                ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
            ]
            topics = broker.metadata.image.topics
            assert {name: len(topic.partitions) for name, topic in topics.items()} == {"a": 3, "b": 1, "c": 1, "d": 2}

    asyncio.run(scenario())


def test_a_dry_run_changes_nothing(serve_metadata: Serve) -> None:
    """`validate_only` answers what would happen and changes nothing."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await broker.metadata.create_topics([NewTopic("a")])
            request = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="a", count=3, assignments=None)],
                timeout_ms=10_000,
                validate_only=True,
            )
            response = await finished(create_partitions.handle(broker.request(3), request))
            assert response.results == [CreatePartitionsTopicResult(name="a")]
            assert len(broker.metadata.image.topics["a"].partitions) == 1

    asyncio.run(scenario())

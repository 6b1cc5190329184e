"""Tests that a change of the metadata is refused if the request's timeout is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any

import pytest
from tests.support.steps import finished

from klamm.broker.handlers.shared.time_left import require_time_left
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.message import Message
from klamm.protocol.schema.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.schema.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest, TopicPartitions

Serve = Callable[[BrokerConfig], AbstractAsyncContextManager[Any]]
_NEW = CreatableTopic(name="b", num_partitions=1, replication_factor=1)
_MOVE = ReassignablePartition(partition_index=0, replicas=[1])
REQUESTS: dict[str, Callable[[int, bool], Message]] = {
    "create_topics": lambda timeout_ms, is_empty: CreateTopicsRequest(
        timeout_ms=timeout_ms, topics=[] if is_empty else [_NEW]
    ),
    "create_partitions": lambda timeout_ms, is_empty: CreatePartitionsRequest(
        timeout_ms=timeout_ms,
        topics=[] if is_empty else [CreatePartitionsTopic(name="a", count=2, assignments=None)],
    ),
    "delete_topics": lambda timeout_ms, is_empty: DeleteTopicsRequest(
        timeout_ms=timeout_ms, topics=[] if is_empty else [DeleteTopicState(name="a")]
    ),
    "elect_leaders": lambda timeout_ms, is_empty: ElectLeadersRequest(
        timeout_ms=timeout_ms, topic_partitions=[] if is_empty else [TopicPartitions(topic="a", partitions=[0])]
    ),
    "alter_partition_reassignments": lambda timeout_ms, is_empty: AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms, topics=[] if is_empty else [ReassignableTopic(name="a", partitions=[_MOVE])]
    ),
}
"""A request of each API, by its handler, with a timeout and with or without anything to do."""


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_without_time_changes_nothing(serve_metadata: Serve, name: str) -> None:
    """It is refused if there is something to do. With time, the same request is answered."""
    handle = import_module(f"klamm.broker.handlers.{name}").handle

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await broker.metadata.create_topics([NewTopic("a")])
            before = broker.metadata.image
            for timeout_ms in (0, -1):
                with pytest.raises(KafkaError) as caught:
                    await finished(handle(broker.request(1), REQUESTS[name](timeout_ms, False)))
                assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
                await finished(handle(broker.request(1), REQUESTS[name](timeout_ms, True)))
            assert broker.metadata.image is before
            await finished(handle(broker.request(1), REQUESTS[name](1, False)))

    asyncio.run(scenario())


def test_time_is_left_from_a_millisecond_on() -> None:
    """The change begins at once, so the shortest timeout is enough."""
    require_time_left(1)

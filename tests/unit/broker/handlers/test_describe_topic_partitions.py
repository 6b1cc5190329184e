"""Tests DescribeTopicPartitions: pages of partitions, ordered by topic name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.steps import finish

from klamm.broker.handlers import describe_topic_partitions
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from klamm.protocol.schema.describe_topic_partitions_response import DescribeTopicPartitionsResponse

Serve = Callable[[BrokerConfig], AbstractAsyncContextManager[Any]]
PARTITIONS = {"a": 3, "b": 1, "c": 5}


async def create_topics(broker: Any) -> None:
    """Creates three topics, in an order that differs from the order of their names."""
    await broker.metadata.create_topics([NewTopic(name, partitions=PARTITIONS[name]) for name in ("c", "a", "b")])


def pages(broker: Any, limit: int, names: list[str]) -> list[list[tuple[str | None, list[int]]]]:
    """Returns all pages that a client gets by following the cursor to the end."""
    seen = []
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
        )
        response = finish(describe_topic_partitions.handle(broker.request(0), request))
        seen.append([(t.name, [p.partition_index for p in t.partitions]) for t in response.topics])
        if response.next_cursor is None:
            return seen
        cursor = Cursor(
            topic_name=response.next_cursor.topic_name, partition_index=response.next_cursor.partition_index
        )


def test_pages_break_where_the_limit_says(serve_metadata: Serve) -> None:
    """A page ends inside a topic or between two topics, and has at least one partition."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await create_topics(broker)
            assert pages(broker, 100, []) == [[("a", [0, 1, 2]), ("b", [0]), ("c", [0, 1, 2, 3, 4])]]
            assert pages(broker, 4, []) == [
                [("a", [0, 1, 2]), ("b", [0])],
                [("c", [0, 1, 2, 3])],
                [("c", [4])],
            ]
            assert len(pages(broker, 0, [])) == len(pages(broker, 1, [])) == 9

    asyncio.run(scenario())


@given(limit=st.integers(1, 12), broker_limit=st.integers(1, 12), names=st.sets(st.sampled_from([*PARTITIONS, "?"])))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=examples(30),
)
def test_pages_together_hold_every_partition_once(
    serve_metadata: Serve, limit: int, broker_limit: int, names: set[str]
) -> None:
    """For all limits of client and broker, the pages together hold every partition exactly once."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig(max_request_partition_size_limit=broker_limit)) as broker:
            await create_topics(broker)
            seen: dict[str | None, list[int]] = {}
            for page in pages(broker, limit, sorted(names)):
                assert sum(len(indexes) for _, indexes in page) <= min(limit, broker_limit)
                for name, indexes in page:
                    seen.setdefault(name, []).extend(indexes)
            wanted = names or PARTITIONS.keys()
            assert seen == {name: list(range(PARTITIONS.get(name, 0))) for name in sorted(wanted)}

    asyncio.run(scenario())


def ask(broker: Any, **fields: Any) -> DescribeTopicPartitionsResponse:
    """Returns one answer."""
    return finish(describe_topic_partitions.handle(broker.request(0), DescribeTopicPartitionsRequest(**fields)))


def test_a_partition_is_described_in_full(serve_metadata: Serve) -> None:
    """A partition is described in full, with the topic's id and the authorized operations."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await create_topics(broker)
            topic = ask(broker, topics=[TopicRequest(name="b")]).topics[0]
            assert topic.topic_id == broker.metadata.image.topics["b"].topic_id
            assert topic.topic_authorized_operations == 3576
            partition = topic.partitions[0]
            assert (partition.leader_id, partition.leader_epoch) == (1, 0)
            assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])
            assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])

    asyncio.run(scenario())


def test_unknown_topics_are_said_to_be(serve_metadata: Serve) -> None:
    """An unknown topic gets UNKNOWN_TOPIC_OR_PARTITION, and an illegal name gets INVALID_TOPIC_EXCEPTION."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            response = ask(broker, topics=[TopicRequest(name="not legal"), TopicRequest(name="x")])
            assert [(topic.name, topic.error_code) for topic in response.topics] == [
                ("not legal", ErrorCode.INVALID_TOPIC_EXCEPTION),
                ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("names", "cursor"),
    [(["a"], Cursor(topic_name="b", partition_index=0)), ([], Cursor(topic_name="a", partition_index=-1))],
)
def test_a_cursor_must_point_into_what_is_asked(serve_metadata: Serve, names: list[str], cursor: Cursor) -> None:
    """A cursor with a topic outside the request or with a negative partition gets INVALID_REQUEST."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await create_topics(broker)
            with pytest.raises(KafkaError) as caught:
                ask(broker, topics=[TopicRequest(name=name) for name in names], cursor=cursor)
            assert caught.value.code == ErrorCode.INVALID_REQUEST

    asyncio.run(scenario())


def test_a_cursor_beyond_a_topics_end_goes_on_with_the_next(serve_metadata: Serve) -> None:
    """A cursor beyond the end of its topic continues with the next topic; the topic may be deleted or recreated with
    fewer partitions."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await create_topics(broker)
            response = ask(broker, cursor=Cursor(topic_name="b", partition_index=9))
            assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [("b", 0), ("c", 5)]
            response = ask(broker, cursor=Cursor(topic_name="aa", partition_index=9))
            assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [("b", 1), ("c", 5)]

    asyncio.run(scenario())


def test_partitions_of_a_wide_topic_are_described_in_steps(
    serve_metadata: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may hold thousands of partitions of one topic, and other clients need not wait for all of them."""
    described: list[int] = []
    describe = describe_topic_partitions._describe

    def count(brokers: Any, partition: Any, *, is_offline: bool) -> Any:
        described.append(partition.index)
        return describe(brokers, partition, is_offline=is_offline)

    monkeypatch.setattr(describe_topic_partitions, "_describe", count)

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await broker.metadata.create_topics([NewTopic("wide", partitions=450)])
            request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="wide")])
            after_steps = [0, *(len(described) for _ in describe_topic_partitions.handle(broker.request(0), request))]
            assert described == list(range(450))
            assert max(later - earlier for earlier, later in pairwise([*after_steps, 450])) <= 100

    asyncio.run(scenario())

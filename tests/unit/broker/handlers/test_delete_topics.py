"""Tests DeleteTopics: by name, by id, and refused requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.steps import finished

from klamm.broker.handlers import delete_topics
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.schema.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

Serve = Callable[[BrokerConfig], AbstractAsyncContextManager[Any]]
Result = tuple[str | None, bytes, int, str | None]
ZERO = bytes(16)


def results(response: DeleteTopicsResponse) -> list[Result]:
    """Returns all results in a fixed order, because Kafka shuffles them."""
    found = [(r.name, r.topic_id, int(r.error_code), r.error_message) for r in response.responses]
    return sorted(found, key=lambda result: (result[0] or "", result[1]))


async def create_topics(broker: Any, *names: str) -> dict[str, bytes]:
    """Creates topics with the given names, and returns their ids."""
    await broker.metadata.create_topics([NewTopic(name, partitions=2) for name in names])
    return {name: broker.metadata.image.topics[name].topic_id for name in names}


def test_topics_go_by_name(serve_metadata: Serve) -> None:
    """Up to version 5, topics are deleted by name. An unknown topic does not stop the others, and internal topics can
    be deleted, as in Kafka."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            ids = await create_topics(broker, "a", "b", "__consumer_offsets")
            request = DeleteTopicsRequest(topic_names=["a", "__consumer_offsets", "unknown"], timeout_ms=10_000)
            response = await finished(delete_topics.handle(broker.request(5), request))
            assert results(response) == [
                ("__consumer_offsets", ids["__consumer_offsets"], 0, None),
                ("a", ids["a"], 0, None),
                (
                    "unknown",
                    ZERO,
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    "This server does not host this topic-partition.",
                ),
            ]
            assert broker.metadata.image.topics.keys() == {"b"}

    asyncio.run(scenario())


def test_topics_go_by_id_or_name(serve_metadata: Serve) -> None:
    """In version 6, topics are deleted by id or name; the result for an unknown id has no name."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            ids = await create_topics(broker, "a", "b")
            request = DeleteTopicsRequest(
                topics=[
                    DeleteTopicState(topic_id=ids["a"]),
                    DeleteTopicState(name="b"),
                    DeleteTopicState(topic_id=b"?" * 16),
                ],
                timeout_ms=10_000,
            )
            assert results(await finished(delete_topics.handle(broker.request(6), request))) == [
                (None, b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
                ("a", ids["a"], 0, None),
                ("b", ids["b"], 0, None),
            ]
            assert broker.metadata.image.topics == {}

    asyncio.run(scenario())


def test_what_cannot_be_meant_is_refused_and_deletes_nothing(serve_metadata: Serve) -> None:
    """A topic with no name and no id, with both, or named twice by name or id gets INVALID_REQUEST with Kafka's
    message, and no topic is deleted."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            ids = await create_topics(broker, "a", "b", "c", "d", "e")
            request = DeleteTopicsRequest(
                topics=[
                    DeleteTopicState(),
                    DeleteTopicState(name="a", topic_id=ids["a"]),
                    DeleteTopicState(name="b"),
                    DeleteTopicState(name="b"),
                    DeleteTopicState(topic_id=ids["c"]),
                    DeleteTopicState(topic_id=ids["c"]),
                    DeleteTopicState(topic_id=ids["d"]),
                    DeleteTopicState(name="d"),
                    DeleteTopicState(name="c"),
                ],
                timeout_ms=10_000,
            )
            response = await finished(delete_topics.handle(broker.request(6), request))
            assert {result[2] for result in results(response)} == {ErrorCode.INVALID_REQUEST}
            assert sorted((r.name, r.error_message) for r in response.responses if r.name is not None) == [
                ("a", "You may not specify both topic name and topic id."),
                ("b", "Duplicate topic name."),
                ("c", "The provided topic name maps to an ID that was already supplied."),
                ("d", "The provided topic name maps to an ID that was already supplied."),
            ]
            assert [(r.topic_id, r.error_message) for r in response.responses if r.name is None] == [
                (ZERO, "Neither topic name nor id were specified."),
                (ids["c"], "Duplicate topic id."),
            ]
            assert len(broker.metadata.image.topics) == 5

    asyncio.run(scenario())


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_deletion_can_be_switched_off(serve_metadata: Serve, version: int, code: ErrorCode) -> None:
    """`delete.topic.enable=false` refuses deletion; version 3 introduced a specific error code."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig(delete_topic_enable=False)) as broker:
            await create_topics(broker, "a")
            with pytest.raises(KafkaError) as caught:
                await finished(delete_topics.handle(broker.request(version), DeleteTopicsRequest(topic_names=["a"])))
            assert caught.value.code == code
            assert "a" in broker.metadata.image.topics

    asyncio.run(scenario())


def test_a_refused_request_answers_every_topic() -> None:
    """The error response names every topic from the request, by name or by id."""
    request = DeleteTopicsRequest(topic_names=["a"], topics=[DeleteTopicState(topic_id=b"x" * 16)])
    response = delete_topics.error_response(request, 6, ErrorCode.TOPIC_DELETION_DISABLED)
    assert response.responses == [
        DeletableTopicResult(name=None, topic_id=b"x" * 16, error_code=ErrorCode.TOPIC_DELETION_DISABLED),
        DeletableTopicResult(name="a", error_code=ErrorCode.TOPIC_DELETION_DISABLED),
    ]

"""Fixtures for tests that check a broker's answers on the wire."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.types import TopicId
from klamm.testing import Broker


# No longer than a module: in the process of the tests, it would write to its log while a simulated world runs there.
@pytest.fixture(scope="module")
def served() -> Iterator[Broker]:
    """Runs one broker for the tests of a module; each test creates its own topics."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def wire(served: Broker) -> Iterator[Wire]:
    """Opens a connection to the shared broker."""
    with Wire(served.bootstrap_servers) as wire:
        yield wire


@pytest.fixture
def new_topic(wire: Wire) -> Callable[..., tuple[str, TopicId]]:
    """Creates a topic: new_topic(partitions, **configs with underscores for dots) -> (name, id)."""

    def create(partitions: int = 1, **configs: str) -> tuple[str, TopicId]:
        name = f"topic-{uuid.uuid4().hex[:12]}"
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        response = wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert response.topics[0].error_code == ErrorCode.NONE, response
        return name, TopicId(response.topics[0].topic_id)

    return create

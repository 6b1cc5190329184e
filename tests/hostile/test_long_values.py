"""Tests requests with values of the maximum length: the broker still answers with an error message."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.schema.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from klamm.testing import Broker

LONGEST = "1" * 32_767


@pytest.fixture
def wire() -> Iterator[Wire]:
    """A connection to a broker."""
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        yield wire


def test_the_error_of_a_very_long_value_is_shortened(wire: Wire) -> None:
    """The broker shortens an error message that includes a very long value to the maximum length of a string."""
    config = CreatableTopicConfig(name="retention.ms", value=LONGEST)
    topic = CreatableTopic(name="events", num_partitions=1, replication_factor=1, configs=[config])
    for version in range(2, 8):
        answer = wire.call(CreateTopicsResponse, version, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert answer.topics[0].error_code == ErrorCode.INVALID_CONFIG
        message = answer.topics[0].error_message
        assert message is not None
        assert len(message) == 32_767
        assert message.startswith("Invalid value 111")
    resource = AlterConfigsResource(
        resource_type=4,
        resource_name="1",
        configs=[AlterableConfig(name="log.cleaner.threads", config_operation=0, value=LONGEST)],
    )
    for version in range(2):
        altered = wire.call(
            IncrementalAlterConfigsResponse, version, IncrementalAlterConfigsRequest(resources=[resource])
        )
        assert altered.responses[0].error_code == ErrorCode.INVALID_REQUEST
        assert len(altered.responses[0].error_message or "") == 32_767

"""Broker configuration that is changed while the broker runs takes effect at once."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.wire import Wire

from klamm.broker.server import BrokerServer
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.schema.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from klamm.testing import Broker

BROKER = 4
SET = 0


def alter(wire: Wire, resource_name: str, key: str, value: str) -> None:
    resource = AlterConfigsResource(
        resource_type=BROKER,
        resource_name=resource_name,
        configs=[AlterableConfig(name=key, config_operation=SET, value=value)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = wire.call(IncrementalAlterConfigsResponse, 1, request)
    assert response.responses[0].error_code == ErrorCode.none, response


def retention_of(broker: Broker, topic: str) -> int:
    async def look(server: BrokerServer) -> int:
        assert server.context is not None
        return server.context.partitions.get(topic, 0).log.config.retention_ms

    return broker.run_in_broker(look)


def test_a_default_for_topics_reaches_topics_that_do_not_override_it(
    wire: Wire, served: Broker, new_topic: Callable[..., tuple[str, bytes]]
) -> None:
    """log.retention.ms, set for the cluster, is what topics without their own retention.ms keep to, old and new."""
    before, _ = new_topic()
    own, _ = new_topic(retention_ms="1234567")
    alter(wire, "", "log.retention.ms", "7654321")
    after, _ = new_topic()
    assert [retention_of(served, topic) for topic in (before, own, after)] == [7654321, 1234567, 7654321]


def test_a_change_outlives_a_restart() -> None:
    """What was set on the running broker holds after a restart, before the logs are opened."""
    broker = Broker()
    with broker:
        with Wire(broker.bootstrap_servers) as wire:
            alter(wire, "1", "log.retention.ms", "7654321")
        broker.stop()
        broker.start()
        with Wire(broker.bootstrap_servers) as wire:

            async def look(server: BrokerServer) -> int:
                return server.config.topic_defaults.retention_ms

            assert broker.run_in_broker(look) == 7654321

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.event_loop import in_loop
from tests.support.metadata_brokers import ENDPOINTS, connect
from tests.support.steps import finish
from tests.unit.broker.handlers.conftest import MetadataBroker

from klamm.broker.handlers import list_config_resources
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.image import ResourceType
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.list_config_resources_request import ListConfigResourcesRequest
from klamm.protocol.types import BrokerId

if TYPE_CHECKING:
    from tests.unit.broker.handlers.conftest import ServeMetadata


async def fill(broker: MetadataBroker) -> None:
    await broker.metadata.create_topics([NewTopic("t", partitions=1)])
    await broker.metadata.alter_configs(
        {
            (ResourceType.GROUP, "g"): {"consumer.session.timeout.ms": "50000"},
            (ResourceType.CLIENT_METRICS, "s"): {"interval.ms": "1000"},
        }
    )


@in_loop
async def test_all_types_are_listed_when_none_is_named(serve_metadata: ServeMetadata) -> None:
    """Without types, the answer lists existing brokers and topics, and the groups and metrics subscriptions that have
    settings."""
    async with serve_metadata(BrokerConfig()) as broker:
        await fill(broker)
        response = finish(list_config_resources.handle(broker.request(1), ListConfigResourcesRequest()))
        assert [(each.resource_type, each.resource_name) for each in response.config_resources] == [
            (32, "g"),
            (16, "s"),
            (8, "1"),
            (4, "1"),
            (2, "t"),
        ]


@in_loop
async def test_brokers_that_the_client_can_not_reach_are_not_listed() -> None:
    """Only a broker that has the client's listener can be asked for its settings."""
    metadata = MemoryMetadata()
    one, store = await connect(metadata, 1)
    two, _ = await connect(metadata, 2)
    three, _ = await connect(metadata, 3)
    await three.start_broker(ENDPOINTS)
    await two.start_broker({"INTERNAL": ("h", 9093)})
    await one.start_broker(ENDPOINTS)
    broker = MetadataBroker(store, one, BrokerConfig(node_id=BrokerId(1)))
    request = ListConfigResourcesRequest(resource_types=[ResourceType.BROKER])
    response = finish(list_config_resources.handle(broker.request(1), request))
    assert [each.resource_name for each in response.config_resources] == ["1", "3"]
    for service in (one, two, three):
        await service.close()


@in_loop
async def test_only_the_types_asked_for_are_listed(serve_metadata: ServeMetadata) -> None:
    """Only the requested types are listed (KIP-1142)."""
    async with serve_metadata(BrokerConfig()) as broker:
        await fill(broker)
        request = ListConfigResourcesRequest(resource_types=[ResourceType.TOPIC, ResourceType.GROUP])
        response = finish(list_config_resources.handle(broker.request(1), request))
        assert [each.resource_name for each in response.config_resources] == ["g", "t"]


@in_loop
async def test_version_0_knows_metrics_subscriptions_only(serve_metadata: ServeMetadata) -> None:
    """Version 0 lists metrics subscriptions only, because it was ListClientMetricsResources."""
    async with serve_metadata(BrokerConfig()) as broker:
        await fill(broker)
        response = finish(list_config_resources.handle(broker.request(0), ListConfigResourcesRequest()))
        assert [each.resource_name for each in response.config_resources] == ["s"]


@in_loop
async def test_an_unknown_type_is_refused(serve_metadata: ServeMetadata) -> None:
    """An unknown type gets UNSUPPORTED_VERSION, because a later version may know the type."""
    async with serve_metadata(BrokerConfig()) as broker:
        with pytest.raises(KafkaError) as refusal:
            finish(list_config_resources.handle(broker.request(1), ListConfigResourcesRequest(resource_types=[64])))
        assert refusal.value.code is ErrorCode.UNSUPPORTED_VERSION

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.event_loop import in_loop
from tests.support.steps import finish

from klamm.broker.handlers import describe_configs
from klamm.config.broker_config import BrokerConfig
from klamm.config.table import group_keys
from klamm.metadata.image import ResourceType
from klamm.metadata.service import NewTopic
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.schema.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from tests.unit.broker.handlers.conftest import MetadataBroker, ServeMetadata


def describe(
    broker: MetadataBroker, kind: int, name: str, keys: list[str] | None = None, *, in_full: bool = False
) -> DescribeConfigsResponse:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)],
        include_synonyms=in_full,
        include_documentation=in_full,
    )
    return finish(describe_configs.handle(broker.request(4), request))


@in_loop
async def test_a_topic_is_described_with_what_is_set_on_it(serve_metadata: ServeMetadata) -> None:
    """A topic is described with the requested keys only; synonyms and documentation are present only if requested."""
    async with serve_metadata(BrokerConfig.load({"log.retention.ms": "7"})) as broker:
        await broker.metadata.create_topics([NewTopic("t", partitions=1, configs={"retention.ms": "5"})])
        (result,) = describe(broker, ResourceType.TOPIC, "t", ["retention.ms"], in_full=True).results
        (entry,) = result.configs
        assert (result.error_code, result.resource_type, result.resource_name) == (0, 2, "t")
        assert (entry.value, entry.config_source, entry.config_type, entry.read_only) == ("5", 1, 5, False)
        assert [(each.name, each.value, each.source) for each in entry.synonyms] == [
            ("retention.ms", "5", 1),
            ("log.retention.ms", "7", 4),
            ("log.retention.hours", "168", 5),
        ]
        assert entry.documentation is not None
        (result,) = describe(broker, ResourceType.TOPIC, "t").results
        assert len(result.configs) == 33
        assert not any(entry.synonyms or entry.documentation for entry in result.configs)


@pytest.mark.parametrize("name", ["x", " 1", "1_0", "1.0", "99999999999", "-"])
@in_loop
async def test_a_broker_is_named_by_a_number(serve_metadata: ServeMetadata, name: str) -> None:
    """What Java does not read as an integer is no name of a broker, even if Python reads it."""
    async with serve_metadata(BrokerConfig()) as broker:
        for kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
            (result,) = describe(broker, kind, name).results
            assert result.error_code == ErrorCode.INVALID_REQUEST
            assert result.error_message == f"Broker id must be an integer, but it is: {name}"


@in_loop
async def test_a_broker_is_described_in_all_versions(serve_metadata: ServeMetadata) -> None:
    """A broker is described with every key, and every version can carry the answer."""
    async with serve_metadata(BrokerConfig()) as broker:
        response = describe(broker, ResourceType.BROKER, "1", in_full=True)
        assert len(response.results[0].configs) > 300
        for version in range(1, 5):
            decoded, _ = decode(DescribeConfigsResponse, version, encode(response, version))
            assert len(decoded.results[0].configs) == len(response.results[0].configs)


@in_loop
async def test_the_clusters_default_is_what_was_set_for_all_brokers(serve_metadata: ServeMetadata) -> None:
    """The cluster default has the settings for all brokers; at first, these are the settings of the cluster's first
    start."""
    async with serve_metadata(BrokerConfig()) as broker:
        (first,) = describe(broker, ResourceType.BROKER, "").results[0].configs
        assert (first.name, first.value, first.config_source) == ("min.insync.replicas", "1", 3)
        await broker.metadata.alter_configs({(ResourceType.BROKER, ""): {"max.connections": "5"}})
        (entry,) = describe(broker, ResourceType.BROKER, "", ["max.connections"], in_full=True).results[0].configs
        assert (entry.name, entry.value, entry.config_source) == ("max.connections", "5", 3)
        assert entry.synonyms == [DescribeConfigsSynonym(name="max.connections", value="5", source=3)]
        (own,) = describe(broker, ResourceType.BROKER, "1", ["max.connections"]).results[0].configs
        assert (own.value, own.config_source) == ("5", 3)


@in_loop
async def test_groups_and_metrics_subscriptions_are_described_before_anything_is_set(
    serve_metadata: ServeMetadata,
) -> None:
    """Groups and metrics subscriptions can be described under any name, as in Kafka. There are no loggers, because
    log levels can't be set."""
    async with serve_metadata(BrokerConfig()) as broker:
        assert len(describe(broker, ResourceType.GROUP, "g").results[0].configs) == len(group_keys())
        assert len(describe(broker, ResourceType.CLIENT_METRICS, "s").results[0].configs) == 3
        logger = describe(broker, ResourceType.BROKER_LOGGER, "1").results[0]
        assert (logger.error_code, logger.configs) == (0, [])


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (ResourceType.TOPIC, "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (
            ResourceType.TOPIC,
            "",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (
            ResourceType.BROKER,
            "2",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 2",
        ),
        (ResourceType.BROKER, "x", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
        (ResourceType.BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (
            ResourceType.BROKER_LOGGER,
            "2",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 but received 2",
        ),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (
            ResourceType.CLIENT_METRICS,
            "",
            ErrorCode.INVALID_REQUEST,
            "Client metrics subscription name must not be empty",
        ),
    ],
)
@in_loop
async def test_what_can_not_be_described_gets_kafkas_error(
    serve_metadata: ServeMetadata, kind: int, name: str, code: ErrorCode, message: str
) -> None:
    """A resource that can't be described gets Kafka's code and message."""
    async with serve_metadata(BrokerConfig()) as broker:
        (result,) = describe(broker, kind, name).results
        assert (result.error_code, result.error_message, result.configs) == (code, message, [])


@in_loop
async def test_an_unknown_type_refuses_the_whole_request(serve_metadata: ServeMetadata) -> None:
    """An unknown resource type fails the whole request, as in Kafka."""
    async with serve_metadata(BrokerConfig()) as broker:
        with pytest.raises(KafkaError, match="a request being malformed") as refusal:
            describe(broker, 3, "x")
        request = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=3, resource_name="x")])
        response = describe_configs.error_response(request, 4, refusal.value.code, refusal.value.message)
        assert [(each.error_code, each.resource_name) for each in response.results] == [(42, "x")]


@in_loop
async def test_a_secret_is_not_told(serve_metadata: ServeMetadata) -> None:
    """A sensitive key is described without its value."""
    async with serve_metadata(BrokerConfig()) as broker:
        (entry,) = describe(broker, ResourceType.BROKER, "1", ["ssl.keystore.password"]).results[0].configs
        assert entry == DescribeConfigsResourceResult(
            name="ssl.keystore.password",
            value=None,
            config_source=5,
            is_sensitive=True,
            config_type=9,
            documentation=None,
        )

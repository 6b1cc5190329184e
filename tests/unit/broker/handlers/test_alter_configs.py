from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.event_loop import in_loop
from tests.support.steps import finished

from klamm.broker.handlers import alter_configs
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.image import ResourceType
from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.alter_configs_request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource

if TYPE_CHECKING:
    from tests.unit.broker.handlers.conftest import MetadataBroker, ServeMetadata


async def alter(
    broker: MetadataBroker, kind: int, name: str, configs: dict[str, str | None], *, validate_only: bool = False
) -> tuple[int, str | None]:
    request = AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, value=value) for key, value in configs.items()],
            )
        ],
        validate_only=validate_only,
    )
    (response,) = (await finished(alter_configs.handle(broker.request(2), request))).responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    return response.error_code, response.error_message


@in_loop
async def test_settings_are_replaced(serve_metadata: ServeMetadata) -> None:
    """AlterConfigs replaces all settings: a key that the request omits is unset, and IncrementalAlterConfigs exists
    for that reason."""
    async with serve_metadata(BrokerConfig()) as broker:
        await broker.metadata.create_topics([NewTopic("t", partitions=1, configs={"retention.ms": "5"})])
        assert await alter(broker, ResourceType.TOPIC, "t", {"segment.ms": "7"}) == (0, None)
        assert broker.metadata.image.config_overrides(ResourceType.TOPIC, "t") == {"segment.ms": "7"}
        assert await alter(broker, ResourceType.TOPIC, "t", {}, validate_only=True) == (0, None)
        assert broker.metadata.image.config_overrides(ResourceType.TOPIC, "t") == {"segment.ms": "7"}
        assert await alter(broker, ResourceType.TOPIC, "t", {}) == (0, None)
        assert broker.metadata.image.config_overrides(ResourceType.TOPIC, "t") == {}


@in_loop
async def test_what_can_not_be_is_refused(serve_metadata: ServeMetadata) -> None:
    """AlterConfigs refuses log levels as an unknown resource type, and refuses a null value."""
    async with serve_metadata(BrokerConfig()) as broker:
        code, message = await alter(broker, ResourceType.BROKER_LOGGER, "1", {"root": "DEBUG"})
        assert (code, message) == (ErrorCode.INVALID_REQUEST, "Unknown resource type 8")
        code, message = await alter(broker, ResourceType.BROKER, "", {"max.connections": None})
        assert (code, message) == (ErrorCode.INVALID_REQUEST, "Null value not supported for : max.connections")


@in_loop
async def test_an_error_refuses_every_resource() -> None:
    """The error response repeats the code and the message for every resource."""
    request = AlterConfigsRequest(resources=[AlterConfigsResource(resource_type=2, resource_name="t")])
    (response,) = alter_configs.error_response(request, 2, ErrorCode.KAFKA_STORAGE_ERROR, "disk full").responses
    assert (response.error_code, response.error_message, response.resource_name) == (56, "disk full", "t")

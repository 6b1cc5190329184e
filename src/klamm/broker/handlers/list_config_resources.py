"""ListConfigResources: returns the names of the resources that DescribeConfigs can describe (KIP-1142).

Versions 0 to 1: v0 client metrics only (as ListClientMetricsResources, KIP-714), v1 all types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.nodes import reachable_brokers
from klamm.broker.time_slices import Work
from klamm.metadata.image import ResourceType
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.list_config_resources_request import ListConfigResourcesRequest
from klamm.protocol.schema.list_config_resources_response import ConfigResource, ListConfigResourcesResponse

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

# The order of Kafka's response.
_ORDER: Final = (
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
    ResourceType.BROKER_LOGGER,
    ResourceType.BROKER,
    ResourceType.TOPIC,
)


def handle(context: RequestContext, request: ListConfigResourcesRequest) -> Work[ListConfigResourcesResponse]:
    """Returns the resources of the requested types, or of all types if the request names none.

    Groups and metrics subscriptions are listed only if a setting of theirs is set. Raises UNSUPPORTED_VERSION for a
    type that this version does not support.
    """
    supported = {ResourceType.CLIENT_METRICS} if context.api_version == 0 else set(ResourceType)
    wanted: set[int] = set()
    for resource_type in request.resource_types:
        if resource_type not in supported:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        wanted.add(resource_type)
        yield None
    image = context.broker.metadata.image
    brokers = [str(broker_id) for broker_id in sorted(reachable_brokers(context))]
    names = {
        ResourceType.BROKER: brokers,
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.TOPIC: list(image.topics),
        ResourceType.GROUP: [name for kind, name in image.configs if kind == ResourceType.GROUP],
        ResourceType.CLIENT_METRICS: [name for kind, name in image.configs if kind == ResourceType.CLIENT_METRICS],
    }
    response = ListConfigResourcesResponse()
    for kind in _ORDER:
        for name in names[kind] if kind in (wanted or supported) else ():
            response.config_resources.append(ConfigResource(resource_name=name, resource_type=kind))
            yield None
    return response


def error_response(
    request: ListConfigResourcesRequest, version: int, code: ErrorCode, message: str | None = None
) -> ListConfigResourcesResponse:
    """Returns a response with this error."""
    return ListConfigResourcesResponse(error_code=code)

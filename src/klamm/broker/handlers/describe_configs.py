"""DescribeConfigs: returns the settings of topics, brokers, groups and metrics subscriptions, key by key.

Versions 1 to 4: v1 sources and synonyms (KIP-226), v2 response before throttling, v3 types and documentation (KIP-569),
v4 flexible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.config_resources import broker_number, check_topic_name, layers_of
from klamm.broker.time_slices import Work, free_later
from klamm.config.description import (
    ConfigEntry,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from klamm.metadata.image import ResourceType
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.schema.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import BrokerContext, RequestContext

__all__ = ["error_response", "handle"]

# Kafka's default message for INVALID_REQUEST.
_MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


_MAXIMUM_ENTRIES: Final = 2**20
"""Maximum number of keys in a response. A larger one would take hundreds of megabytes, so it is refused."""


def handle(context: RequestContext, request: DescribeConfigsRequest) -> Work[DescribeConfigsResponse]:
    """Describes each resource once. Each has its own error, with the messages of Kafka's `ConfigHelper`.

    Raises INVALID_REQUEST for an unknown resource type, POLICY_VIOLATION if the response would have more than
    `_MAXIMUM_ENTRIES` keys.
    """
    names_asked: dict[tuple[int, str], str] = {}
    wanted: dict[tuple[int, str], set[str] | None] = {}
    for resource in request.resources:
        if resource.resource_type not in _DESCRIBE:
            raise KafkaError(ErrorCode.INVALID_REQUEST, _MALFORMED)
        key = _identity(resource)
        names_asked.setdefault(key, resource.resource_name)
        # Null or an empty list requests all keys.
        if not resource.configuration_keys:
            wanted[key] = None
        elif (names := wanted.setdefault(key, set())) is not None:
            for name in resource.configuration_keys:
                names.add(name)
                yield None
        yield None
    response = DescribeConfigsResponse()
    room = _MAXIMUM_ENTRIES
    for key, names in wanted.items():
        result = yield from _result(context.broker, request, key[0], names_asked[key], names)
        response.results.append(result)
        room -= len(result.configs)
        if room < 0:
            free_later(response, wanted, names_asked)
            del response, result, names, names_asked, wanted  # otherwise the traceback would keep them alive
            reason = f"The answer would have more than {_MAXIMUM_ENTRIES} entries: ask for fewer resources at a time."
            raise KafkaError(ErrorCode.POLICY_VIOLATION, reason)
        yield None
    free_later(wanted, names_asked)
    return response


def error_response(
    request: DescribeConfigsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DescribeConfigsResponse:
    """Returns a response with this error for every resource."""
    return DescribeConfigsResponse(
        results=[_refuse(each.resource_type, each.resource_name, code, message) for each in request.resources]
    )


def _identity(resource: DescribeConfigsResource) -> tuple[int, str]:
    """Returns type and name. The name of a broker is normalized, because a number can be written in several ways."""
    name = resource.resource_name
    if resource.resource_type in {ResourceType.BROKER, ResourceType.BROKER_LOGGER}:
        number = broker_number(name)
        name = name if number is None else str(number)
    return resource.resource_type, name


def _result(
    broker: BrokerContext,
    request: DescribeConfigsRequest,
    resource_type: int,
    resource_name: str,
    wanted: Collection[str] | None,
) -> Work[DescribeConfigsResult]:
    try:
        entries = _DESCRIBE[resource_type](broker, resource_name)
    except KafkaError as error:
        return _refuse(resource_type, resource_name, error.code, error.message)
    result = DescribeConfigsResult(resource_type=resource_type, resource_name=resource_name)
    for entry in entries:
        if wanted is None or entry.name in wanted:
            result.configs.append(
                DescribeConfigsResourceResult(
                    name=entry.name,
                    value=entry.value,
                    read_only=entry.is_read_only,
                    config_source=entry.source,
                    is_sensitive=entry.is_sensitive,
                    synonyms=[
                        DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
                        for synonym in (entry.synonyms if request.include_synonyms else ())
                    ],
                    config_type=entry.type_id,
                    documentation=entry.documentation if request.include_documentation else None,
                )
            )
        yield None
    return result


def _refuse(resource_type: int, resource_name: str, code: ErrorCode, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code, error_message=message, resource_type=resource_type, resource_name=resource_name
    )


def _topic(broker: BrokerContext, name: str) -> list[ConfigEntry]:
    check_topic_name(name)
    topic = broker.metadata.image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return describe_topic(topic.configs, layers_of(broker))


def _broker(broker: BrokerContext, name: str) -> list[ConfigEntry]:
    if not name:
        return describe_cluster_default(layers_of(broker))
    if _broker_id(name) != broker.node_id:
        reason = f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
    return describe_broker(layers_of(broker))


def _broker_logger(broker: BrokerContext, name: str) -> list[ConfigEntry]:
    """Returns no entries, because no logger can be set by request."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    if _broker_id(name) != broker.node_id:
        reason = f"Unexpected broker id, expected {broker.node_id} but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
    return []


def _client_metrics(broker: BrokerContext, name: str) -> list[ConfigEntry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    return describe_client_metrics(broker.metadata.image.config_overrides(ResourceType.CLIENT_METRICS, name))


def _group(broker: BrokerContext, name: str) -> list[ConfigEntry]:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return describe_group(broker.metadata.image.config_overrides(ResourceType.GROUP, name), layers_of(broker))


def _broker_id(name: str) -> int:
    number = broker_number(name)
    if number is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    return number


_DESCRIBE: Final[dict[int, Callable[[BrokerContext, str], list[ConfigEntry]]]] = {
    ResourceType.TOPIC: _topic,
    ResourceType.BROKER: _broker,
    ResourceType.BROKER_LOGGER: _broker_logger,
    ResourceType.CLIENT_METRICS: _client_metrics,
    ResourceType.GROUP: _group,
}

"""CreateTopics: creates topics and their logs.

Versions 2 to 7: v3 response before throttling, v4 -1 selects the broker's defaults, v5 flexible, and the response
contains partitions, replication factor and configs of the new topics (KIP-525), v6 THROTTLING_QUOTA_EXCEEDED,
v7 topic ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from klamm.broker.handlers.shared.newest_metadata import reach_newest_metadata
from klamm.broker.handlers.shared.time_left import require_time_left
from klamm.broker.time_slices import Work, free_later, wait_for
from klamm.metadata.image import ResourceType, TopicImage
from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.internal_topic_names import METADATA_TOPIC
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_TELLS_WHAT_WAS_MADE: Final = 5


def handle(context: RequestContext, request: CreateTopicsRequest) -> Work[CreateTopicsResponse]:
    """Creates the topics, with one result per topic, and returns when their logs exist.

    Raises POLICY_VIOLATION if the request has too many partitions in total, REQUEST_TIMED_OUT if its timeout is over.
    """
    counts: Counter[str] = Counter()
    for topic in request.topics:
        counts[topic.name] += 1
        yield None
    wanted_changes: list[NewTopic] = []
    for topic in request.topics:
        if counts[topic.name] == 1 and topic.name != METADATA_TOPIC:
            wanted_changes.append((yield from _new_topic(topic)))
        yield None
    if wanted_changes:
        require_time_left(request.timeout_ms)
        yield from reach_newest_metadata(context)
    outcome = yield from wait_for(
        context.broker.metadata.create_topics(wanted_changes, validate_only=request.validate_only)
    )
    yield from wait_for(context.broker.partitions.settled())
    defaults = _default_configs(context) if context.api_version >= _TELLS_WHAT_WAS_MADE else {}
    response = CreateTopicsResponse()
    for name, result in outcome.items():
        response.topics.append(_result(name, result, defaults))
        yield None
    for name, count in counts.items():
        if count > 1:
            response.topics.append(_refuse(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        yield None
    if counts[METADATA_TOPIC] == 1:
        reason = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        response.topics.append(_refuse(METADATA_TOPIC, ErrorCode.INVALID_REQUEST, reason))
    free_later(counts, wanted_changes, outcome)
    return response


def error_response(
    request: CreateTopicsRequest, version: int, code: ErrorCode, message: str | None = None
) -> CreateTopicsResponse:
    """Returns a response with this error for every topic."""
    return CreateTopicsResponse(topics=[_refuse(topic.name, code, message) for topic in request.topics])


def _new_topic(topic: CreatableTopic) -> Work[NewTopic]:
    assignments: list[tuple[int, list[int]]] = []
    for assignment in topic.assignments:
        assignments.append((assignment.partition_index, assignment.broker_ids))
        yield None
    configs: dict[str, str | None] = {}
    for config in topic.configs:
        configs[config.name] = config.value
        yield None
    return NewTopic(
        topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=assignments,
        configs=configs,
    )


def _refuse(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message)


def _result(
    name: str, result: TopicImage | KafkaError, defaults: Mapping[str, CreatableTopicConfigs]
) -> CreatableTopicResult:
    if isinstance(result, KafkaError):
        return _refuse(name, result.code, result.message)
    return CreatableTopicResult(
        name=name,
        topic_id=result.topic_id,
        error_message=None,
        num_partitions=len(result.partitions),
        replication_factor=len(result.partitions[0].replicas),
        configs=_effective_configs(result.configs, defaults),
    )


def _effective_configs(
    overrides: Mapping[str, str], defaults: Mapping[str, CreatableTopicConfigs]
) -> list[CreatableTopicConfigs]:
    if not defaults or not overrides:
        return list(defaults.values())
    from klamm.config.layers import ConfigSource

    own = {
        name: CreatableTopicConfigs(name=name, value=value, config_source=ConfigSource.TOPIC)
        for name, value in overrides.items()
    }
    return [config for _, config in sorted({**defaults, **own}.items())]


def _default_configs(context: RequestContext) -> dict[str, CreatableTopicConfigs]:
    """Returns the settings of a topic without overrides, in key order, with the place that each comes from.

    Source: `KafkaConfigSchema.resolveEffectiveTopicConfig` of Apache Kafka 4.3.
    """
    from klamm.config.description import describe_topic
    from klamm.config.layers import BrokerLayers, ConfigSource
    from klamm.config.table import topic_synonyms

    broker = context.broker
    image = broker.metadata.image
    layers = BrokerLayers(
        broker.config.explicit,
        image.config_overrides(ResourceType.BROKER, ""),
        image.config_overrides(ResourceType.BROKER, str(broker.node_id)),
    )
    places = (
        (layers.broker, ConfigSource.DYNAMIC_BROKER),
        (layers.cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (layers.static, ConfigSource.STATIC_BROKER),
    )

    def source(topic_key: str) -> ConfigSource:
        names = [name for name, _ in topic_synonyms().get(topic_key, ())]
        found = (where for place, where in places if any(name in place for name in names))
        return next(found, ConfigSource.DEFAULT)

    return {
        entry.name: CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=source(entry.name))
        for entry in sorted(describe_topic({}, layers), key=attrgetter("name"))
    }

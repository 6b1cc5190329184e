"""Alters the settings of topics, brokers, groups and client metrics; shared by the handlers of config requests.

A change is decided on one image, and decided again if another request or another broker has changed the resource
meanwhile. Two requests that append to the same list therefore both take effect.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.broker.time_slices import free_later
from klamm.config.alteration import (
    Alteration,
    apply_alterations,
    check_alterations,
    check_min_insync_replicas,
    check_sizes,
)
from klamm.config.key_support import KeySupport
from klamm.config.layers import BrokerLayers, apply_dynamic
from klamm.config.table import ConfigKey, broker_keys, client_metrics_keys, group_keys, topic_keys
from klamm.config.validation import (
    validate_broker_configs,
    validate_client_metrics_configs,
    validate_group_configs,
    validate_topic_configs,
)
from klamm.metadata.config_changes import ConfigDecision
from klamm.metadata.image import ResourceType
from klamm.metadata.topic_name import why_invalid
from klamm.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from klamm.broker.handler_context import BrokerContext
    from klamm.metadata.image import MetadataImage

__all__ = ["MAXIMUM_CHANGES", "AlterRequest", "alter_resources", "broker_number", "check_topic_name", "layers_of"]

_logger = logging.getLogger(__name__)

_KEYS: Final = {
    ResourceType.TOPIC: topic_keys,
    ResourceType.BROKER: broker_keys,
    ResourceType.GROUP: group_keys,
    ResourceType.CLIENT_METRICS: client_metrics_keys,
}

MAXIMUM_CHANGES: Final = 10_000
"""Limit per request, as in Kafka (`QuorumController.MAX_RECORDS_PER_USER_OP`)."""
_TOO_MANY_CHANGES: Final = "Unable to perform excessively large batch operation."


_INTEGER: Final = re.compile(r"[+-]?\d{1,32}")


class AlterRequest(NamedTuple):
    """The requested changes of one resource. `replaces`: keys that the request leaves out are unset (AlterConfigs)."""

    resource_type: int
    name: str
    alterations: Sequence[Alteration]
    replaces: bool


def layers_of(broker: BrokerContext, image: MetadataImage | None = None) -> BrokerLayers:
    """Returns the settings of this broker by the place where they were set, from the current image by default."""
    image = broker.metadata.image if image is None else image
    return BrokerLayers(
        broker.config.explicit,
        image.config_overrides(ResourceType.BROKER, ""),
        image.config_overrides(ResourceType.BROKER, str(broker.node_id)),
    )


def broker_number(name: str) -> int | None:
    """Returns the number that a broker resource is named by; None if it is none for Java's `Integer.parseInt`."""
    if not _INTEGER.fullmatch(name) or not -(2**31) <= (number := int(name)) < 2**31:
        return None
    return number


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION if the name is not valid for a topic."""
    reason = why_invalid(name)
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


async def alter_resources(
    broker: BrokerContext, wanted_changes: Sequence[AlterRequest], *, validate_only: bool
) -> list[KafkaError | None]:
    """Returns an error or None for each request. All valid requests are written in one transaction, or none.

    Raises POLICY_VIOLATION if they contain more than `MAXIMUM_CHANGES` changes.
    """
    decided: list[KafkaError | None] | None = None

    def decide(image: MetadataImage) -> ConfigDecision[list[KafkaError | None]]:
        nonlocal decided
        decided = None
        decided, changes = yield from _decide_all(broker, image, wanted_changes)
        return decided, changes

    try:
        results, changes = await broker.metadata.decide_configs(decide, validate_only=validate_only)
    except KafkaError as error:
        if decided is None:
            raise
        return [error if result is None else result for result in decided]
    if validate_only or not changes:
        return results
    await broker.partitions.settled()  # every log must use the change before it is acknowledged
    _warn_of_no_effect(changes)
    return results


def _decide_all(
    broker: BrokerContext, image: MetadataImage, wanted_changes: Sequence[AlterRequest]
) -> Generator[None, None, tuple[list[KafkaError | None], dict[tuple[int, str], Mapping[str, str | None]]]]:
    """Returns an error or None for each request, and the changes of the valid requests."""
    counts: Counter[tuple[int, str]] = Counter()
    results: list[KafkaError | None] = []
    changes: dict[tuple[int, str], Mapping[str, str | None]] = {}
    for wanted_change in wanted_changes:
        counts[wanted_change.resource_type, wanted_change.name] += 1
        yield
    room = MAXIMUM_CHANGES
    for wanted_change in wanted_changes:
        try:
            if counts[wanted_change.resource_type, wanted_change.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            changed = yield from _decide(broker, image, wanted_change)
        except KafkaError as error:
            results.append(error.with_traceback(None))  # a traceback would keep a frame for each error
        else:
            results.append(None)
            if changed:
                changes[wanted_change.resource_type, wanted_change.name] = changed
                room -= len(changed)
                if room < 0:
                    free_later(counts, results, changes)
                    del counts, results, changes  # otherwise the traceback would keep them alive
                    raise KafkaError(ErrorCode.POLICY_VIOLATION, _TOO_MANY_CHANGES)
        yield
    free_later(counts)
    return results, changes


def _decide(
    broker: BrokerContext, image: MetadataImage, wanted_change: AlterRequest
) -> Generator[None, None, dict[str, str | None]]:
    """Returns the requested changes: key to value, None to unset. Raises KafkaError with Kafka's error code."""
    if len(wanted_change.alterations) > MAXIMUM_CHANGES:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, _TOO_MANY_CHANGES)
    check_alterations(wanted_change.alterations)
    keys = _keys_of(wanted_change)
    if wanted_change.resource_type == ResourceType.BROKER and wanted_change.name:
        _check_is_this_broker(broker, wanted_change.name)
    yield
    current = image.config_overrides(wanted_change.resource_type, wanted_change.name)
    wanted = apply_alterations({} if wanted_change.replaces else current, wanted_change.alterations, keys)
    if wanted_change.resource_type == ResourceType.BROKER:
        check_min_insync_replicas(wanted_change.name, wanted_change.alterations, current, wanted)
    check_sizes(current, wanted)
    yield
    _validate(broker, image, wanted_change, wanted)
    yield
    changes: dict[str, str | None] = {key: value for key, value in wanted.items() if current.get(key) != value}
    changes.update(dict.fromkeys(key for key in current if key not in wanted))
    return changes


def _keys_of(wanted_change: AlterRequest) -> Mapping[str, ConfigKey]:
    if wanted_change.resource_type == ResourceType.BROKER_LOGGER and not wanted_change.replaces:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Log levels are not set by request.")
    keys = _KEYS.get(wanted_change.resource_type)  # type: ignore[call-overload]  # an IntEnum equals the number from the wire
    if keys is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {wanted_change.resource_type}")
    found: Mapping[str, ConfigKey] = keys()
    return found


def _check_is_this_broker(broker: BrokerContext, name: str) -> None:
    number = broker_number(name)
    if number is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if number != broker.node_id:
        reason = f"Unexpected broker id, expected {broker.node_id}, but received {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, reason)


def _validate(
    broker: BrokerContext, image: MetadataImage, wanted_change: AlterRequest, wanted: Mapping[str, str]
) -> None:
    match wanted_change.resource_type:
        case ResourceType.TOPIC:
            if not wanted_change.name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
            check_topic_name(wanted_change.name)
            layers = layers_of(broker, image)
            defaults = apply_dynamic(broker.config, layers.cluster, layers.broker).topic_defaults
            validate_topic_configs(wanted, defaults)
            if wanted_change.name not in image.topics:
                reason = f"The topic '{wanted_change.name}' does not exist."
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)
        case ResourceType.BROKER:
            validate_broker_configs(
                wanted, broker.config, layers_of(broker, image), per_broker=bool(wanted_change.name)
            )
        case ResourceType.GROUP:
            if not wanted_change.name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            validate_group_configs(wanted, layers_of(broker, image).values())
        case ResourceType.CLIENT_METRICS:
            validate_client_metrics_configs(wanted_change.name, wanted)


def _warn_of_no_effect(changes: Mapping[tuple[int, str], Mapping[str, str | None]]) -> None:
    for (resource_type, name), changed in changes.items():
        keys = _KEYS[ResourceType(resource_type)]()
        idle = [
            key
            for key, value in changed.items()
            if value is not None and key in keys and keys[key].support is KeySupport.ACCEPTED
        ]
        if idle:
            resource = ResourceType(resource_type).name.lower()
            _logger.warning(
                "These keys were set on %s %r and have no effect: %s", resource, name, ", ".join(sorted(idle))
            )

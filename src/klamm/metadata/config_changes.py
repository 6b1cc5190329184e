"""Decides about requests to set or unset config overrides. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from klamm.config.topic_config import TopicConfig
from klamm.metadata.entries import put_configs, put_topic
from klamm.metadata.image import MetadataImage, ResourceType
from klamm.metadata.metadata_store import Change, Plan, Planning
from klamm.protocol.errors import ErrorCode, KafkaError

__all__ = ["ConfigChanges", "check_new_topic", "plan_configs"]

ConfigChanges = Mapping[tuple[int, str], Mapping[str, str | None]]


def check_new_topic(overrides: Mapping[str, str], defaults: TopicConfig) -> None:
    """Raises INVALID_CONFIG when a new topic can't have these overrides over the `defaults` of its broker."""
    if overrides:
        # The table of all keys is read when the first topic that has overrides is made, and not by every start.
        from klamm.config.alteration import check_sizes
        from klamm.config.validation import validate_topic_configs

        check_sizes({}, overrides)
        validate_topic_configs(overrides, defaults)


def plan_configs(image: MetadataImage, changes: ConfigChanges) -> Planning[None]:
    """Lays `changes` (resource type and name to key to value, None to unset) over what is set.

    Raises UNKNOWN_TOPIC_OR_PARTITION for a topic that isn't there; then nothing is changed. Values are taken as they
    are: who asks has checked them.
    """
    writes: list[Change] = []
    for (resource_type, name), wanted in changes.items():
        yield
        present = image.config_overrides(resource_type, name)
        merged = {key: value for key, value in {**present, **wanted}.items() if value is not None}
        if resource_type == ResourceType.topic:
            topic = image.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
            if merged != present:
                writes.append(put_topic(replace(topic, configs=merged)))
        elif merged != present:
            writes.append(put_configs(resource_type, name, merged))
    return Plan(None, writes)

"""Decides requests that set or unset config overrides. The functions are pure."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import TypeAlias, TypeVar

from klamm.config.topic_config import TopicConfig
from klamm.metadata.entries import put_configs, put_topic
from klamm.metadata.image import MetadataImage, ResourceType
from klamm.metadata.metadata_store import Change, Plan, Planning
from klamm.metadata.replicas.eligible_leaders import clearing, guard_key, is_changed, topics_with_default
from klamm.protocol.errors import ErrorCode, KafkaError

__all__ = ["ConfigChanges", "ConfigDecision", "check_new_topic", "plan_configs", "plan_decided_configs"]

R = TypeVar("R")
ConfigChanges: TypeAlias = Mapping[tuple[int, str], Mapping[str, str | None]]
ConfigDecision: TypeAlias = Generator[None, None, tuple[R, ConfigChanges]]
"""Decides changes of overrides from one image, in steps. Returns a result with the changes."""


def check_new_topic(overrides: Mapping[str, str], defaults: TopicConfig) -> None:
    """Raises INVALID_CONFIG if a new topic can't have these overrides on top of the `defaults` of its broker."""
    if overrides:
        # The table of all keys is loaded for the first new topic with overrides, not at every start.
        from klamm.config.alteration import check_sizes
        from klamm.config.validation import validate_topic_configs

        check_sizes({}, overrides)
        validate_topic_configs(overrides, defaults)


def plan_decided_configs(
    image: MetadataImage, decide: Callable[[MetadataImage], ConfigDecision[R]]
) -> Planning[tuple[R, ConfigChanges]]:
    """Plans the changes that `decide` returns for the image."""
    result, changes = yield from decide(image)
    plan = yield from plan_configs(image, changes)
    return Plan((result, changes), plan.changes, plan.reads)


def plan_configs(image: MetadataImage, changes: ConfigChanges) -> Planning[None]:
    """Merges `changes` (resource type and name to key to value, None to unset) into the existing overrides.

    A change of `min.insync.replicas` removes eligible leader replicas first, and is decided again if one is added
    meanwhile (see `replicas/eligible_leaders.py`).

    Raises UNKNOWN_TOPIC_OR_PARTITION for a topic that does not exist; then nothing is changed. The caller must have
    checked the values.
    """
    writes: dict[str, Change] = {}
    reads: list[str] = []
    for (resource_type, name), wanted in changes.items():
        yield
        present = image.config_overrides(resource_type, name)
        merged = {key: value for key, value in {**present, **wanted}.items() if value is not None}
        if resource_type == ResourceType.TOPIC:
            topic = image.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            if merged != present:
                if is_changed(present, merged):
                    writes |= clearing([topic])
                    reads = [guard_key()]
                write = put_topic(replace(topic, configs=merged))
                writes[write.key] = write
        elif merged != present:
            if resource_type == ResourceType.BROKER and not name and is_changed(present, merged):
                for topic in topics_with_default(image):
                    writes |= clearing([topic])
                    yield
            write = put_configs(resource_type, name, merged)
            writes[write.key] = write
    return Plan(None, list(writes.values()), reads)

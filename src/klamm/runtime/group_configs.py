"""Settings of the group coordinator from the broker's configuration: for all groups, and for each group.

A group's own settings are limited to the broker's current bounds, as in Kafka's `GroupConfig.evaluate`. They were
checked when they were set, but a restart may have changed the bounds.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, Literal, overload

from klamm.config.broker_config import BrokerConfig
from klamm.config.values import parse_value
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.group_config import GroupConfig
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage, ResourceType

__all__ = ["LOAD_PREFIX", "PREVIOUS_OWNER", "CurrentGroupConfigs", "group_coordinator_config", "group_config"]

_logger = logging.getLogger(__name__)

_MINUTE_MS: Final = 60_000
LOAD_PREFIX: Final = "klamm.consumer.assignor.load."
PREVIOUS_OWNER: Final = "klamm.consumer.assignor.previous.owner.ms"


def group_coordinator_config(config: BrokerConfig) -> GroupCoordinatorConfig:
    """Returns the coordinator's settings from the broker's configuration."""
    return GroupCoordinatorConfig(
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        rebalance_batch_ms=config.klamm_group_rebalance_batch_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        consumer_max_size=config.group_consumer_max_size,
        consumer_assignors=config.group_consumer_assignors,
        consumer_migration_policy=config.group_consumer_migration_policy.lower(),
        consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        offsets_retention_ms=config.offsets_retention_minutes * _MINUTE_MS,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        ephemeral_patterns=config.klamm_group_ephemeral_patterns,
        ephemeral_retention_ms=config.klamm_group_ephemeral_retention_ms,
        offset_commit_linger_ms=(
            config.group_coordinator_append_linger_ms
            if config.klamm_offsets_commit_linger_ms is None
            else config.klamm_offsets_commit_linger_ms
        ),
    )


def group_config(config: BrokerConfig, overrides: Mapping[str, str], group_id: str = "") -> GroupConfig:
    """Returns the settings of a group that has `overrides` (keys of the resource type group)."""
    bounds = {
        "consumer.session.timeout.ms": (
            config.group_consumer_session_timeout_ms,
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
        "consumer.heartbeat.interval.ms": (
            config.group_consumer_heartbeat_interval_ms,
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        "consumer.assignment.interval.ms": (
            config.group_consumer_assignment_interval_ms,
            config.group_consumer_min_assignment_interval_ms,
            config.group_consumer_max_assignment_interval_ms,
        ),
    }

    def within_bounds(key: str) -> int:
        default, lowest, highest = bounds[key]
        text = overrides.get(key)
        wanted = default if text is None else _number(key, text, "INT")
        value = min(max(wanted, lowest), highest)
        if value != wanted:
            where = f"group.{key}" if text is None else f"{key} of group {group_id!r}"
            _logger.warning("%s is %d and taken for %d, the nearest allowed", where, wanted, value)
        return value

    defaults = GroupConfig()
    previous_owner = overrides.get(PREVIOUS_OWNER)
    return GroupConfig(
        session_timeout_ms=within_bounds("consumer.session.timeout.ms"),
        heartbeat_interval_ms=within_bounds("consumer.heartbeat.interval.ms"),
        assignment_interval_ms=within_bounds("consumer.assignment.interval.ms"),
        previous_owner_ms=defaults.previous_owner_ms
        if previous_owner is None
        else _number(PREVIOUS_OWNER, previous_owner, "INT"),
        load={
            key.removeprefix(LOAD_PREFIX): _number(key, text, "DOUBLE")
            for key, text in overrides.items()
            if key.startswith(LOAD_PREFIX)
        },
    )


@overload
def _number(key: str, text: str, kind: Literal["INT"]) -> int: ...
@overload
def _number(key: str, text: str, kind: Literal["DOUBLE"]) -> float: ...
def _number(key: str, text: str, kind: str) -> float:
    """Parses the value of a key; the value was checked when it was set."""
    value = parse_value(key, text, kind)
    assert isinstance(value, (int, float))
    return value


class CurrentGroupConfigs:
    """The current settings of each group, from configuration and metadata; cheap enough for a call at every heartbeat.

    An instance is callable, as a `GroupConfigOf`.
    """

    def __init__(self, config: BrokerConfig, image: MetadataImage = EMPTY_IMAGE) -> None:
        self._config = config
        self._image = image
        self._default = group_config(config, {})
        self._of_groups: dict[str, GroupConfig] = {}

    def use(self, config: BrokerConfig, image: MetadataImage) -> None:
        """Replaces the configuration and the metadata image."""
        if config is not self._config:
            self._default = group_config(config, {})
        if config is not self._config or image.configs is not self._image.configs:
            self._of_groups.clear()
        self._config = config
        self._image = image

    def __call__(self, group_id: str) -> GroupConfig:
        """Returns the current settings of the group."""
        if not self._image.configs:
            return self._default  # The common case: no group and no broker has settings of its own.
        settings = self._of_groups.get(group_id)
        if settings is not None:
            return settings
        overrides = self._image.config_overrides(ResourceType.GROUP, group_id)
        if not overrides:
            return self._default
        settings = self._of_groups[group_id] = group_config(self._config, overrides, group_id)
        return settings

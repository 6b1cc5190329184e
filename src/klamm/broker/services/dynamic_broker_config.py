"""The configuration of a running broker: the static configuration, and the dynamic settings that override it.

Source: `DynamicBrokerConfig` of Apache Kafka 4.3 (KIP-226).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from klamm.config.topic_config import TopicConfig
from klamm.metadata.image import ResourceType
from klamm.runtime.group_configs import CurrentGroupConfigs

if TYPE_CHECKING:
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.image import MetadataImage, TopicImage

__all__ = ["DynamicBrokerConfig"]

_Observer: TypeAlias = "Callable[[BrokerConfig, BrokerConfig], None]"


class DynamicBrokerConfig:
    """The current configuration of one broker, of its topics and of its groups."""

    def __init__(self, static: BrokerConfig) -> None:
        """Takes the configuration that the broker was started with. It applies until `use` is called."""
        self.current = static
        self.group_configs = CurrentGroupConfigs(static)
        self._static = static
        self._observers: list[_Observer] = []

    def use(self, image: MetadataImage) -> BrokerConfig:
        """Overrides the static configuration with the settings of the image, and returns the result."""
        self.current = self._merge(image)
        self.group_configs.use(self.current, image)
        return self.current

    def topic_config_of(self, topic: TopicImage | None) -> TopicConfig:
        """Returns the topic's configuration, or the broker's defaults for None."""
        if topic is None or not topic.configs:
            return self.current.topic_defaults
        return TopicConfig.from_mapping(topic.configs, self.current.topic_defaults)

    def on_change(self, observer: _Observer) -> None:
        """Calls `observer(before, current)` after each change, in the order of registration."""
        self._observers.append(observer)

    def on_metadata_update(self, old: MetadataImage, new: MetadataImage) -> None:
        """Applies the settings of the new image, and calls the observers if the configuration has changed."""
        if old.configs is new.configs:
            return
        before = self.current
        if self.use(new) != before:
            for observer in self._observers:
                observer(before, self.current)

    def _merge(self, image: MetadataImage) -> BrokerConfig:
        for_all = image.config_overrides(ResourceType.BROKER, "")
        for_this = image.config_overrides(ResourceType.BROKER, str(self._static.node_id))
        if not for_all and not for_this:
            return self._static
        from klamm.config.layers import apply_dynamic  # imports the table of all keys, which few brokers need

        return apply_dynamic(self._static, for_all, for_this)

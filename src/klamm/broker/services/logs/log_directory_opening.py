"""Opens the log directory of a starting broker, and compares it with the metadata.

Source: `LogManager.startup` of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from klamm.broker.partitions.role import Role, role_in
from klamm.protocol.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from klamm.config.topic_config import TopicConfig
    from klamm.metadata.image import TopicImage
    from klamm.metadata.service import MetadataService
    from klamm.storage.directory.log_directory import LogDirectory

__all__ = ["open_log_directory"]


async def open_log_directory(
    log_directory: LogDirectory,
    metadata: MetadataService,
    node_id: BrokerId,
    topic_config_of: Callable[[TopicImage | None], TopicConfig],
) -> None:
    """Recovers the logs on a thread, marks lost logs offline and sets folders aside that are not assigned
    to this broker.

    Raises OSError if the folder can't be read or written.
    """

    def config_of(topic: str) -> TopicConfig:
        return topic_config_of(metadata.image.topics.get(topic))

    await asyncio.to_thread(log_directory.open, config_of)
    assigned = {
        TopicPartition(topic.name, partition.index): topic.topic_id
        for topic in metadata.image.topics.values()
        for partition in topic.partitions
        if role_in(partition, node_id) is not Role.NOT_HERE
    }
    log_directory.find_lost(assigned, config_of)
    log_directory.set_strays_aside(assigned)

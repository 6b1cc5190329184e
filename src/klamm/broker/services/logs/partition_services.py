"""The partitions that one broker leads, with the components that sync their logs and read and open their batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from klamm.broker.partitions.batch_opener import BatchOpener
from klamm.broker.partitions.fsync_batcher import FsyncBatcher
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.broker.partitions.warm_reads import WarmReads

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.config.broker_config import BrokerConfig
    from klamm.config.topic_config import TopicConfig
    from klamm.metadata.image import TopicImage
    from klamm.protocol.types import Millis
    from klamm.storage.directory.log_directory import LogDirectory

__all__ = ["PartitionServices"]


class PartitionServices:
    """The registry of partitions, the group commit of their logs, and their readers.

    Must be created on the running event loop.
    """

    def __init__(
        self,
        config: BrokerConfig,
        log_directory: LogDirectory,
        topic_config_of: Callable[[TopicImage], TopicConfig],
        *,
        clock: Callable[[], Millis],
        on_tails_synced: Callable[[], None],
    ) -> None:
        self.fsync_batcher = (
            FsyncBatcher(asyncio.get_running_loop(), clock, on_tails_synced=on_tails_synced)
            if config.klamm_fsync != "os"
            else None
        )
        """None if the operating system decides when to sync (`klamm.fsync=os`)."""
        self.registry = PartitionRegistry(
            config.node_id,
            log_directory,
            topic_config_of,
            self.fsync_batcher if config.klamm_fsync == "ack" else None,
        )
        self.warm_reads = WarmReads()
        self.registry.on_leadership(self._on_leadership)
        self.batch_opener = BatchOpener()

    def _on_leadership(self, partition: Partition, is_leader: bool) -> None:
        if not is_leader:
            self.warm_reads.forget(partition)

    async def stop(self) -> None:
        """Creates and deletes the logs for all pending steps, and waits for the batch that is being opened and for the
        syncs in progress."""
        self.warm_reads.stop()
        self.registry.finish()
        self.registry.unled.departed.stop()
        await asyncio.to_thread(self.batch_opener.stop)
        if self.fsync_batcher is not None:
            await asyncio.to_thread(self.fsync_batcher.stop)

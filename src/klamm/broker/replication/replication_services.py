"""Replication on one broker: the followers of what it leads, and the fetchers of what it follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from klamm.broker.replication.failed_logs import FailedLogs
from klamm.broker.replication.follower_truncations import FollowerTruncations
from klamm.broker.replication.in_sync_proposals import InSyncProposals
from klamm.broker.replication.lag_check import LagCheck
from klamm.broker.replication.replica_fetchers import ReplicaFetchers
from klamm.broker.replication.unclean_leaderships import UncleanLeaderships
from klamm.broker.services.cluster.controller import Controller
from klamm.metadata.image import EMPTY_IMAGE

if TYPE_CHECKING:
    from klamm.broker.partitions.fsync_batcher import FsyncBatcher
    from klamm.broker.partitions.partition import Partition
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.broker.replication.replication_quotas import ReplicationQuotas
    from klamm.broker.services.peers.peers import OpenPeerConnection
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.service import MetadataService
    from klamm.protocol.types import Millis, TopicId, TopicPartition
    from klamm.runtime.ports import Spawn
    from klamm.storage.directory.log_directory import LogDirectory

__all__ = ["ReplicationServices"]


class ReplicationServices:
    """The components of replication, from `start` to `stop`. Must be created on the running event loop."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        partitions: PartitionRegistry,
        metadata: MetadataService,
        open_peer_connection: OpenPeerConnection,
        spawn: Spawn,
        *,
        quotas: ReplicationQuotas,
        log_directory: LogDirectory,
        clock: Callable[[], Millis],
        fsync_batcher: FsyncBatcher | None,
    ) -> None:
        """Creates the components. `fsync_batcher` is given if a record counts only when it is on the disk."""
        present = config()
        self._metadata = metadata

        def topic_id_of(partition: Partition) -> TopicId | None:
            led = partitions.by_name.get(partition.topic)
            return led.topic_id if led is not None and led.holds(partition) else None

        def is_offline(topic_partition: TopicPartition) -> bool:
            log = log_directory.get(topic_partition)
            return log is not None and log.is_offline

        self.unclean_leaderships = UncleanLeaderships(present.node_id)
        self.failed_logs = FailedLogs(present.node_id, metadata, spawn, is_offline, present.replica_fetch_backoff_ms)
        self.proposals = InSyncProposals(config, metadata, self.failed_logs, spawn, topic_id_of)
        self.fetchers = ReplicaFetchers(
            present,
            partitions.unled.followed,
            partitions.unled.reads,
            metadata,
            open_peer_connection,
            quotas=quotas,
            truncations=FollowerTruncations(partitions.unled.followed, log_directory.truncations, clock),
            clock=clock,
            fsync_batcher=fsync_batcher,
            failed_logs=self.failed_logs,
        )
        self._lag_check = LagCheck(partitions, lambda: config().replica_lag_time_max_ms)
        self._controller = Controller(config, metadata)
        partitions.replicate(self.proposals, metadata.has_session)

    def start(self) -> None:
        """Begins to fetch, to check the lag of followers, and to elect leaders. The partitions exist already."""
        self.fetchers.start()
        self._lag_check.start()
        self._metadata.subscribe(self._lag_check.on_metadata_update)
        self._metadata.subscribe(self.failed_logs.on_metadata_update)
        self._metadata.subscribe(self.unclean_leaderships.on_metadata_update)
        self.unclean_leaderships.on_metadata_update(EMPTY_IMAGE, self._metadata.image)
        self._controller.start()

    def stop(self) -> None:
        """Stops to fetch, to check the lag of followers, and to elect leaders."""
        self._controller.stop()
        self._lag_check.stop()
        self.fetchers.stop()

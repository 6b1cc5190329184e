"""The fetchers of all leaders that this broker follows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from klamm.broker.replication.leader_fetcher import LeaderFetcher
from klamm.broker.services.peers.peer_identity import prove_identity
from klamm.broker.services.peers.peers import OpenPeerConnection, PeerConnection, Peers
from klamm.core.replication.follower_fetch import FetchLimits

if TYPE_CHECKING:
    from klamm.broker.partitions.followed_partition import FollowerReads
    from klamm.broker.partitions.fsync_batcher import FsyncBatcher
    from klamm.broker.partitions.replica_logs import FollowedLog, ReplicaLogs
    from klamm.broker.replication.failed_logs import FailedLogs
    from klamm.broker.replication.follower_truncations import FollowerTruncations
    from klamm.broker.replication.replication_quotas import ReplicationQuotas
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.service import MetadataService
    from klamm.protocol.types import BrokerId, Millis
    from klamm.storage.log.log import Log

__all__ = ["ReplicaFetchers"]


class ReplicaFetchers:
    """One `LeaderFetcher` for each broker that leads a partition which this broker follows."""

    def __init__(
        self,
        config: BrokerConfig,
        logs: ReplicaLogs,
        reads: FollowerReads,
        metadata: MetadataService,
        open_peer_connection: OpenPeerConnection,
        *,
        quotas: ReplicationQuotas,
        truncations: FollowerTruncations,
        clock: Callable[[], Millis],
        fsync_batcher: FsyncBatcher | None,
        failed_logs: FailedLogs,
    ) -> None:
        """Creates the fetchers. `fsync_batcher` is given if a record counts only when it is on the disk.

        `reads`, `failed_logs`: see `LeaderFetcher`.
        """
        self._config = config
        self._logs = logs
        self._reads = reads
        self._metadata = metadata
        self._open_peer_connection = open_peer_connection
        self._quotas = quotas
        self._truncations = truncations
        self._clock = clock
        self._fsync_batcher = fsync_batcher
        self._failed_logs = failed_logs
        self._fetchers: dict[BrokerId, LeaderFetcher] = {}
        self._peers: dict[BrokerId, Peers] = {}
        self._is_stopped = False

    @property
    def largest_lag(self) -> int:
        """The largest number of records by which a log on this broker was behind its leader's high watermark."""
        return max((fetcher.largest_lag for fetcher in self._fetchers.values()), default=0)

    def start(self) -> None:
        """Fetches all partitions that this broker follows now, and later on."""
        self._logs.observe(self._on_change)
        for followed in list(self._logs):
            self._on_change(None, followed)

    def stop(self) -> None:
        """Ends all fetching."""
        self._is_stopped = True
        for fetcher in self._fetchers.values():
            fetcher.stop()
        self._truncations.stop()
        for peers in self._peers.values():
            peers.stop()

    def _on_change(self, old: FollowedLog | None, new: FollowedLog | None) -> None:
        if self._is_stopped:
            return
        if old is not None and (new is None or new.leader != old.leader):
            self._fetchers[old.leader].remove(old.key)
        if new is not None:
            fetcher = self._fetchers.get(new.leader)
            if fetcher is None:
                fetcher = self._fetchers[new.leader] = self._make(new.leader)
            fetcher.put(new)

    def _make(self, leader: BrokerId) -> LeaderFetcher:
        config, metadata = self._config, self._metadata
        peers = self._peers[leader] = Peers(
            config.node_id,
            config.inter_broker_listener_name,
            lambda: metadata.image,
            self._open_peer_connection,
            client_id=f"broker-{config.node_id}-fetcher-{leader}",
            introduce=self._introduce,
        )
        metadata.subscribe(peers.on_metadata_update)
        return LeaderFetcher(
            leader,
            config.node_id,
            self._logs,
            peers,
            reads=self._reads,
            limits=FetchLimits(
                config.replica_fetch_wait_max_ms,
                config.replica_fetch_min_bytes,
                config.replica_fetch_response_max_bytes,
                config.replica_fetch_max_bytes,
            ),
            backoff_ms=config.replica_fetch_backoff_ms,
            own_epoch=self._own_epoch,
            quotas=self._quotas,
            truncations=self._truncations,
            clock=self._clock,
            synced=None if self._fsync_batcher is None else self._synced,
            failed_logs=self._failed_logs,
        )

    async def _introduce(self, connection: PeerConnection) -> None:
        await prove_identity(connection, self._config.node_id, self._metadata.incarnation)

    def _own_epoch(self) -> int:
        broker = self._metadata.image.brokers.get(self._config.node_id)
        return -1 if broker is None else broker.epoch

    async def _synced(self, logs: Collection[Log]) -> None:
        """Returns when the logs are on the disk up to their present ends. Several logs share a sync."""
        assert self._fsync_batcher is not None
        unsynced = [log for log in logs if log.recovery_point < log.log_end_offset and not log.is_offline]
        if not unsynced:
            return
        left = len(unsynced)
        have_ended = asyncio.Event()

        def end() -> None:
            nonlocal left
            left -= 1
            if not left:
                have_ended.set()

        for log in unsynced:
            self._fsync_batcher.request(log, end)
        await have_ended.wait()

"""Proposes changes of in-sync replicas and leaders to the metadata: the port of the partitions' followers on a broker.

The leader of a partition writes the change itself, by compare-and-set, instead of asking a controller (Kafka's
AlterPartition, KIP-497). The metadata compare the epochs of the leader, of the partition and of the replicas.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from klamm.protocol.errors import KafkaError
from klamm.protocol.types import BrokerId

if TYPE_CHECKING:
    from klamm.broker.partitions.followers import Followers, InSyncMember
    from klamm.broker.partitions.partition import Partition
    from klamm.broker.replication.failed_logs import FailedLogs
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.service import MetadataService
    from klamm.protocol.types import TopicId
    from klamm.runtime.ports import Spawn

__all__ = ["InSyncProposals"]

_logger = logging.getLogger(__name__)

TopicIds: TypeAlias = Callable[[str], "TopicId | None"]


class InSyncProposals:
    """The proposals of all partitions that this broker leads, one after the other. Implements `ReplicationPort`."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        metadata: MetadataService,
        failed_logs: FailedLogs,
        spawn: Spawn,
        topic_ids: TopicIds,
    ) -> None:
        """Creates the port. `topic_ids` returns the id of a topic that this broker leads a partition of."""
        self._failed_logs = failed_logs
        self._config = config
        self._metadata = metadata
        self._spawn = spawn
        self._topic_ids = topic_ids
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Partition, None] = {}
        self._is_proposing = False

    @property
    def node_id(self) -> BrokerId:
        """Implements `ReplicationPort.node_id`."""
        return self._config().node_id

    @property
    def max_lag_ms(self) -> int:
        """Implements `ReplicationPort.max_lag_ms`."""
        return self._config().replica_lag_time_max_ms

    def now_ms(self) -> float:
        """Implements `ReplicationPort.now_ms`."""
        return self._loop.time() * 1000

    def live_epoch(self, broker_id: BrokerId) -> int | None:
        """Implements `ReplicationPort.live_epoch`."""
        broker = self._metadata.image.brokers.get(broker_id)
        return None if broker is None or broker.is_stopping else broker.epoch

    def propose(self, partition: Partition) -> None:
        """Implements `ReplicationPort.propose`."""
        self._waiting[partition] = None
        if not self._is_proposing:
            self._is_proposing = True
            self._spawn(self._propose_all())

    def give_up(self, partition: Partition) -> None:
        """Implements `ReplicationPort.give_up`."""
        self._failed_logs.add(partition.log.topic_partition)

    async def _propose_all(self) -> None:
        try:
            while self._waiting:
                partition = next(iter(self._waiting))
                del self._waiting[partition]
                followers = partition.followers
                topic_id = self._topic_ids(partition.topic)
                if followers is None or topic_id is None or not partition.accepts_writes:
                    continue
                members = followers.begin_proposal(partition)
                if members is not None:
                    await self._propose(partition, followers, topic_id, members)
        finally:
            self._is_proposing = False

    async def _propose(
        self, partition: Partition, followers: Followers, topic_id: TopicId, members: Sequence[InSyncMember]
    ) -> None:
        before = partition.image
        try:
            image = await self._metadata.replicas.alter_isr(
                topic_id,
                before.index,
                leader_epoch=partition.leader_epoch,
                partition_epoch=before.partition_epoch,
                new_isr=members,
            )
            _logger.info("%s: the in-sync replicas change from %s to %s", partition, list(before.isr), list(image.isr))
        except KafkaError as error:
            # The metadata have changed meanwhile, or can't be written. The next Fetch or check of the lag tries again.
            _logger.info("%s: the in-sync replicas stay %s: %s", partition, list(before.isr), error)
        finally:
            followers.end_proposal()
            partition.reconsider_high_watermark()

"""Proposes changes of in-sync replicas and leaders to the metadata: the port of the partitions' followers on a broker.

The leader of a partition writes the change itself, by compare-and-set, instead of asking a controller (Kafka's
AlterPartition, KIP-497). The metadata compare the epochs of the leader, of the partition and of the replicas.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from klamm.metadata.replicas.isr_changes import IsrProposal
from klamm.protocol.errors import KafkaError
from klamm.protocol.types import BrokerId

if TYPE_CHECKING:
    from klamm.broker.partitions.followers import Followers
    from klamm.broker.partitions.partition import Partition
    from klamm.broker.replication.failed_logs import FailedLogs
    from klamm.config.broker_config import BrokerConfig
    from klamm.metadata.image import MetadataImage, PartitionImage
    from klamm.metadata.replicas.isr_changes import IsrOutcome
    from klamm.metadata.service import MetadataService
    from klamm.protocol.types import TopicId, TopicPartition
    from klamm.runtime.ports import Spawn

__all__ = ["InSyncProposals"]

_logger = logging.getLogger(__name__)

_PARTITIONS_AT_ONCE: Final = 50
"""Number of partitions whose proposals are in progress together: most often one transaction holds their changes."""

_RETRY_S: Final = 0.5

TopicIds: TypeAlias = Callable[["Partition"], "TopicId | None"]


class _Begun(NamedTuple):
    """A proposal in progress. Until its end, the partition's high watermark waits for the old and the new replicas."""

    partition: Partition
    followers: Followers
    proposal: IsrProposal


class InSyncProposals:
    """The proposals of all partitions that this broker leads, some at a time. Implements `ReplicationPort`."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        metadata: MetadataService,
        failed_logs: FailedLogs,
        spawn: Spawn,
        topic_ids: TopicIds,
    ) -> None:
        """Creates the port. `topic_ids` returns the id of the topic of a partition that this broker leads, None if the
        topic is deleted."""
        self._failed_logs = failed_logs
        self._config = config
        self._metadata = metadata
        self._spawn = spawn
        self._topic_ids = topic_ids
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Partition, None] = {}
        self._is_proposing = False
        self._failed: list[_Begun] = []
        """Proposals whose outcome is not known, because of an unexpected error."""

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

    def give_up(self, topic_partition: TopicPartition) -> None:
        """Implements `ReplicationPort.give_up`."""
        self._failed_logs.add(topic_partition)

    async def _propose_all(self) -> None:
        try:
            while self._waiting or self._failed:
                failed, self._failed = self._failed, []
                for each in failed:
                    if each.partition.followers is each.followers and not self._metadata.is_closed:
                        # One at a time: the error of one proposal must not stop the others.
                        await self._propose([each])
                begun = list(islice(self._begin_waiting(), _PARTITIONS_AT_ONCE))
                if begun:
                    await self._propose(begun)
                if self._failed:
                    await asyncio.sleep(_RETRY_S)
        finally:
            self._is_proposing = False

    def _begin_waiting(self) -> Iterator[_Begun]:
        """Begins the proposals that are due now."""
        while self._waiting:
            partition = next(iter(self._waiting))
            del self._waiting[partition]
            followers = partition.followers
            topic_id = self._topic_ids(partition)
            if followers is None or topic_id is None or not partition.accepts_writes or partition.log.is_offline:
                # Followers can't fetch from a log that is offline. It must not make them leave.
                continue
            members = followers.begin_proposal(partition)
            if members is None:
                continue
            image = partition.image
            proposal = IsrProposal(
                topic_id, image.index, self.node_id, partition.leader_epoch, image.partition_epoch, members
            )
            yield _Begun(partition, followers, proposal)

    async def _propose(self, begun: Sequence[_Begun]) -> None:
        before = [each.partition.image.isr for each in begun]
        outcomes: Sequence[IsrOutcome]
        try:
            outcomes = await self._metadata.replicas.alter_isr([each.proposal for each in begun])
        except KafkaError as error:
            outcomes = [error] * len(begun)
        except Exception:
            # The outcome is not known, so the high watermark waits for the replicas of both sets. The same proposals
            # are made again until it is: they compare the partition epoch. Without this, the partitions would propose
            # nothing more in their leader epochs.
            _logger.exception("the in-sync replicas of %d partitions can't be changed, it is tried again", len(begun))
            self._failed += begun
            return
        # If the broker stops meanwhile, the outcome stays unknown, and the high watermark waits for the replicas of
        # both sets. Otherwise the image has the outcome. The partition may follow it later, because a broker follows
        # its metadata in steps.
        image = self._metadata.image
        for each in begun:
            try:
                each.followers.end_proposal(_partition(image, each.proposal))
                each.partition.reconsider_high_watermark()
            except Exception:
                _logger.exception("%s could not follow the outcome of a proposal", each.partition)
        for each, isr, outcome in zip(begun, before, outcomes, strict=True):
            if isinstance(outcome, KafkaError):
                # The metadata have changed meanwhile, or can't be written. The next Fetch or check of the lag tries
                # again.
                _logger.info("%s: the in-sync replicas stay %s: %s", each.partition, list(isr), outcome)
            else:
                _logger.info(
                    "%s: the in-sync replicas change from %s to %s", each.partition, list(isr), list(outcome.isr)
                )


def _partition(image: MetadataImage, proposal: IsrProposal) -> PartitionImage | None:
    """Returns the partition of a proposal; None if it is gone."""
    topic = image.topics_by_id.get(proposal.topic_id)
    if topic is None or proposal.index >= len(topic.partitions):
        return None
    return topic.partitions[proposal.index]

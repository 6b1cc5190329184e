"""The followers of a partition that this broker leads: their progress, and the in-sync replicas.

`core/replication` decides. This module keeps the state for one partition in one leader epoch, and asks through
`ReplicationPort` for a change of the in-sync replicas when one is due.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from klamm.core.replication.closest_follower import closest_follower
from klamm.core.replication.follower_progress import NEVER_MS, UNKNOWN_OFFSET, FollowerProgress
from klamm.core.replication.in_sync_replicas import is_eligible, maximal, may_join, out_of_sync
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, Offset, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.partitions.led_topic import LedTopic
    from klamm.broker.partitions.partition import Partition
    from klamm.metadata.image import PartitionImage

__all__ = ["Followers", "InSyncMember", "ReplicationPort", "give_up_without_log"]


class InSyncMember(NamedTuple):
    """A replica of a proposed set of in-sync replicas, and the epoch of its broker's run (KIP-903)."""

    broker_id: BrokerId
    broker_epoch: int


class ReplicationPort(Protocol):
    """What the followers of a partition need of their broker."""

    @property
    def node_id(self) -> BrokerId:
        """The id of this broker."""
        ...

    @property
    def max_lag_ms(self) -> int:
        """The current `replica.lag.time.max.ms`."""
        ...

    def now_ms(self) -> float:
        """Returns the time of a monotonic clock."""
        ...

    def live_epoch(self, broker_id: BrokerId) -> int | None:
        """Returns the epoch of a broker's present run; None if the broker may not join the in-sync replicas, because it
        is not live, or is about to stop (KIP-841)."""
        ...

    def propose(self, partition: Partition) -> None:
        """Asks the metadata soon for the in-sync replicas that `Followers.begin_proposal` returns then."""
        ...

    def give_up(self, topic_partition: TopicPartition) -> None:
        """Gives up this broker's places in a partition soon, because it can't use its log. Does nothing while such a
        request is in progress."""
        ...


class Followers:
    """The followers of one partition, while this broker leads it in one leader epoch."""

    __slots__ = (
        "_ends_with",
        "_epoch_start_offset",
        "_image",
        "_joining",
        "_port",
        "_progress",
        "_proposed",
        "end_offsets",
    )

    def __init__(self, image: PartitionImage, epoch_start_offset: Offset, port: ReplicationPort) -> None:
        """Begins an epoch. `epoch_start_offset` is the log end offset at its beginning."""
        self._port = port
        self._image = image
        self._epoch_start_offset = epoch_start_offset
        self._progress: dict[BrokerId, FollowerProgress] = {}
        self._joining: frozenset[BrokerId] = frozenset()
        """Followers that are caught up but not in sync yet. The high watermark waits for them, too: otherwise it would
        be ahead of them for as long as records arrive, and they could never join."""
        self._proposed: tuple[BrokerId, ...] | None = None
        """The in-sync replicas that were proposed, until the outcome is known and `follow` has taken it over."""
        self._ends_with: int | None = None
        """The partition epoch with which a proposal ends whose outcome is known."""
        self.end_offsets: tuple[Offset, ...] = ()
        """How far the followers hold the records for which the high watermark waits."""
        self.follow(image)

    def follow(self, image: PartitionImage) -> None:
        """Takes over the replicas and in-sync replicas of the metadata.

        A replica that leaves the in-sync replicas must fetch again before it may join: its broker may have left on its
        own, because it can't use the log any more.
        """
        for broker_id in set(self._image.isr) - set(image.isr):
            if broker_id in self._progress:
                self._progress[broker_id].leave()
        self._image = image
        now_ms = self._port.now_ms()
        for broker_id in image.replicas:
            if broker_id != self._port.node_id and broker_id not in self._progress:
                self._progress[broker_id] = FollowerProgress(now_ms if broker_id in image.isr else NEVER_MS)
        for broker_id in self._progress.keys() - set(image.replicas):
            del self._progress[broker_id]
        self._joining &= self._progress.keys()
        self._joining -= set(image.isr)
        if self._ends_with is not None and image.partition_epoch >= self._ends_with:
            self.end_proposal(image)
        self._collect()

    def check_replica(self, broker_id: BrokerId, broker_epoch: int, knows_leader_epoch: bool) -> None:
        """Refuses a Fetch of a broker that is no replica, or of a run of the broker that is over.

        Raises UNKNOWN_LEADER_EPOCH for a broker that may have been added in a leader epoch which this broker does not
        know yet, NOT_LEADER_OR_FOLLOWER otherwise.
        """
        if broker_id not in self._progress:
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if knows_leader_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise KafkaError(code, f"broker {broker_id} is no replica of this partition")
        live_epoch = self._port.live_epoch(broker_id)
        if live_epoch is not None and broker_epoch < live_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"broker {broker_id} fetches with broker epoch {broker_epoch}, and has started again with {live_epoch}",
            )

    def fetched(
        self,
        partition: Partition,
        broker_id: BrokerId,
        broker_epoch: int,
        end_offset: Offset,
        log_start_offset: Offset,
    ) -> None:
        """Records the progress of a follower, and proposes it for the in-sync replicas once it holds enough."""
        progress = self._progress[broker_id]
        log, before = partition.log, progress.end_offset
        progress.fetched(end_offset, log_start_offset, log.log_end_offset, broker_epoch, self._port.now_ms())
        if broker_id not in self._image.isr:
            self._consider(partition, broker_id, progress)
            self._collect()
        elif end_offset != before:
            self._collect()

    def _consider(self, partition: Partition, broker_id: BrokerId, progress: FollowerProgress) -> None:
        log = partition.log
        live_epoch = self._port.live_epoch(broker_id)
        is_caught_up = progress.is_caught_up(log.log_end_offset, self._port.now_ms(), self._port.max_lag_ms)
        if is_caught_up and is_eligible(progress, live_epoch):
            self._joining |= {broker_id}
        else:
            self._joining -= {broker_id}
        if self._proposed is None and may_join(progress, live_epoch, log.high_watermark, self._epoch_start_offset):
            self._port.propose(partition)

    def closest(self, rack: str, rack_of: Callable[[BrokerId], str | None], fetch_offset: Offset) -> BrokerId | None:
        """Returns the follower from which a consumer in `rack` should read the offset; None: from the leader."""
        in_sync = {
            broker_id: progress for broker_id, progress in self._progress.items() if broker_id in self._image.isr
        }
        return closest_follower(rack, rack_of, self._port.node_id, in_sync, fetch_offset)

    def give_up(self, partition: Partition) -> None:
        """Asks for another leader, because this broker can't write to its log."""
        self._port.give_up(partition.log.topic_partition)

    def check_lag(self, partition: Partition) -> None:
        """Proposes to remove in-sync followers that lag for too long. Must be called regularly, and after a broker has
        come or gone."""
        for broker_id in tuple(self._joining):
            self._consider(partition, broker_id, self._progress[broker_id])
        self._collect()
        if self._proposed is None and self._wanted(partition) != set(self._image.isr):
            self._port.propose(partition)

    def _wanted(self, partition: Partition) -> set[BrokerId]:
        """Returns the in-sync replicas as they should be now."""
        log, port = partition.log, self._port
        wanted = set(self._image.isr)
        for broker_id, progress in self._progress.items():
            if broker_id not in wanted and may_join(
                progress, port.live_epoch(broker_id), log.high_watermark, self._epoch_start_offset
            ):
                wanted.add(broker_id)
        lagging = out_of_sync(self._progress, self._image.isr, log.log_end_offset, port.now_ms(), port.max_lag_ms)
        return wanted.difference(lagging)

    def begin_proposal(self, partition: Partition) -> Sequence[InSyncMember] | None:
        """Returns the in-sync replicas to propose; None if there is nothing to change, or a proposal is in progress.

        Until `end_proposal` the high watermark waits for the replicas of both sets.
        """
        wanted = self._wanted(partition)
        if self._proposed is not None or wanted == set(self._image.isr):
            return None
        # In the order of the replicas, as Kafka's.
        self._proposed = tuple(broker_id for broker_id in self._image.replicas if broker_id in wanted)
        self._collect()
        return [InSyncMember(broker_id, self._epoch_of(broker_id)) for broker_id in self._proposed]

    def _epoch_of(self, broker_id: BrokerId) -> int:
        if broker_id == self._port.node_id:
            live_epoch = self._port.live_epoch(broker_id)
            return -1 if live_epoch is None else live_epoch
        return self._progress[broker_id].broker_epoch

    def end_proposal(self, after: PartitionImage | None) -> None:
        """Ends a proposal whose outcome is known. `after` is the partition in the metadata afterwards, None if deleted.

        The proposal counts until `follow` gets this image or a later one. Otherwise the leader could commit records
        that a replica lacks, although the replica has joined.
        """
        if after is not None and after.partition_epoch > self._image.partition_epoch:
            self._ends_with = after.partition_epoch
            return
        self._ends_with = None
        self._proposed = None
        self._joining -= set(self._image.isr)
        self._collect()

    def _collect(self) -> None:
        waits_for = maximal(self._image.isr, self._proposed) | self._joining
        self.end_offsets = tuple(
            progress.end_offset for broker_id, progress in self._progress.items() if broker_id in waits_for
        )

    def low_watermark(self, own_log_start_offset: Offset, live: Collection[BrokerId]) -> Offset:
        """Returns the lowest log start offset of this broker and of its live followers (KIP-107)."""
        lowest = own_log_start_offset
        for broker_id, progress in self._progress.items():
            if broker_id in live:
                lowest = min(lowest, progress.log_start_offset)
        return max(lowest, UNKNOWN_OFFSET)


def give_up_without_log(port: ReplicationPort | None, led: LedTopic, image: PartitionImage) -> None:
    """Gives up this broker's places in a partition whose log it could not create: another replica leads, and commits
    do not wait for this one. `port` is None for a single broker."""
    if image.index in led.failures and port is not None and len(image.replicas) > 1 and port.node_id in image.isr:
        port.give_up(TopicPartition(led.name, image.index))

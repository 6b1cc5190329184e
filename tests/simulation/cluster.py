"""The controller: it elects the leaders of the internal topics' partitions, and tells brokers about changes of the
cluster.

A leader has resigned or is dead before another leader is elected. At most one broker leads a partition: the metadata
store promises this (I6), and the simulator assumes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tests.simulation.broker import Broker
from tests.simulation.disk import STATE_PARTITION, Disk
from tests.simulation.loop import EventLoop
from tests.simulation.topics import Topics

from klamm.core.coordinator.java_hash import partition_for
from klamm.protocol.types import PartitionIndex

__all__ = ["Cluster"]

_NOTICE_MS = (100, 3_000)


class Cluster:
    """All brokers, and the cluster state that they share."""

    def __init__(self, loop: EventLoop, brokers: Sequence[Broker], disk: Disk, topics: Topics) -> None:
        self._loop = loop
        self._disk = disk
        self._topics = topics
        self._partition_count = sum(partition != STATE_PARTITION for partition in disk.replicas)
        self.brokers = brokers

    def start(self) -> None:
        """Starts all brokers, and elects a leader for each partition."""
        for broker in self.brokers:
            broker.start(self._topics.image)
        for partition in self._disk.replicas:
            self._elect(partition, loses_tail=False)

    def broker(self, broker_id: int) -> Broker:
        """Returns the broker with this id."""
        return self.brokers[broker_id]

    def coordinator_of(self, group_id: str) -> Broker | None:
        """Returns the leader of the group's partition, or None if the partition has no leader."""
        leader = self._disk.replicas[PartitionIndex(partition_for(group_id, self._partition_count))].leader
        return None if leader < 0 else self.brokers[leader]

    def leader_of(self, partition: PartitionIndex) -> Broker | None:
        """Returns the leader of the partition, or None if the partition has no leader."""
        leader = self._disk.replicas[partition].leader
        return None if leader < 0 else self.brokers[leader]

    # Crashes and elections

    def crash(self, broker: Broker, down_ms: int) -> None:
        """Kills a broker, and restarts it after `down_ms`. Its partitions get new leaders when the controller notices
        the crash.
        """
        broker.kill()
        for partition, replicas in self._disk.replicas.items():
            if replicas.leader == broker.broker_id:
                self._disk.resign(partition)
                self._loop.call_later(self._loop.between(*_NOTICE_MS), partial(self._fail_over, partition))
        self._loop.call_later(down_ms, partial(self._start_again, broker))

    def _start_again(self, broker: Broker) -> None:
        if broker.process is None:
            broker.start(self._topics.image)

    def _fail_over(self, partition: PartitionIndex) -> None:
        if self._disk.replicas[partition].leader < 0:
            self._elect(partition, loses_tail=self._loop.chance(0.5))

    def move(self, partition: PartitionIndex) -> None:
        """Elects a new leader for a partition, possibly the same broker again.

        A stopped broker resigns as well. Its lease expires by its own clock, so the resignation is the first thing that
        it does when it continues.
        """
        leader = self._disk.replicas[partition].leader
        if leader >= 0:
            self._disk.resign(partition)
            self.brokers[leader].resign(partition)
            # The former leader becomes a follower, and truncates the records that the new leader does not have.
            self._loop.call_later(self._loop.between(0, 1_000), partial(self._fail_over, partition))

    def fail_disk(self, partition: PartitionIndex, offline_ms: int) -> None:
        """Takes a partition offline, as after a failed sync or detected damage; its uncommitted tail may be lost.

        After `offline_ms` the partition has a leader again: another broker, or the same one after a repair.
        """
        leader = self._disk.replicas[partition].leader
        if leader >= 0:
            self._disk.resign(partition)
            self.brokers[leader].resign(partition)
            self._loop.call_later(offline_ms, partial(self._fail_over, partition))

    def _elect(self, partition: PartitionIndex, *, loses_tail: bool) -> None:
        alive = [broker for broker in self.brokers if broker.process is not None and not broker.process.is_stopped]
        if not alive:
            self._loop.call_later(_NOTICE_MS[0], partial(self._fail_over, partition))
            return
        broker = self._loop.random.choice(alive)
        assert broker.process is not None
        self._disk.elect(
            partition,
            broker.broker_id,
            broker.process,
            loses_tail=loses_tail,
            knows_high_watermark=self._loop.chance(0.5),
        )
        broker.lead(partition, self._disk.replicas[partition].leader_epoch)

    # Stopped brokers

    def stall(self, broker: Broker, milliseconds: int, went_on: partial[None]) -> None:
        """Stops a broker's event loop for a while. The controller does not notice this, so the broker keeps its
        partitions.
        """
        process = broker.process
        if process is None or process.is_stopped:
            return
        process.stop()

        def go_on() -> None:
            process.go_on()
            if broker.process is process:
                went_on()

        self._loop.call_later(milliseconds, go_on)

    # Topics

    def announce(self, delay_ms: tuple[int, int] = (0, 300)) -> None:
        """Tells the brokers about a change of the topics, each broker after its own delay."""
        image = self._topics.image
        for broker in self.brokers:
            if broker.process is not None:
                self._loop.call_at(
                    self._loop.now_ms + self._loop.between(*delay_ms),
                    partial(broker.learn, image),
                    broker.process,
                    is_message=True,
                )

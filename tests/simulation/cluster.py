"""The controller: which broker leads which partition of `__consumer_offsets`, and what brokers hear of the cluster.

A broker is told to resign before another is elected, or is dead: that at most one broker leads is the metadata store's
promise (I6), which the simulator takes for granted.
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
    """All brokers, and what is agreed on among them."""

    def __init__(self, loop: EventLoop, brokers: Sequence[Broker], disk: Disk, topics: Topics) -> None:
        self._loop = loop
        self._disk = disk
        self._topics = topics
        self._partition_count = sum(partition != STATE_PARTITION for partition in disk.replicas)
        self.brokers = brokers

    def start(self) -> None:
        """All brokers run, and share the partitions."""
        for broker in self.brokers:
            broker.start(self._topics.image)
        for partition in self._disk.replicas:
            self._elect(partition, loses_tail=False)

    def broker(self, broker_id: int) -> Broker:
        """The broker of that id."""
        return self.brokers[broker_id]

    def coordinator_of(self, group_id: str) -> Broker | None:
        """Who leads the group's partition, if anybody does."""
        leader = self._disk.replicas[PartitionIndex(partition_for(group_id, self._partition_count))].leader
        return None if leader < 0 else self.brokers[leader]

    def leader_of(self, partition: PartitionIndex) -> Broker | None:
        """Who leads the partition, if anybody does."""
        leader = self._disk.replicas[partition].leader
        return None if leader < 0 else self.brokers[leader]

    # Brokers that die and come back

    def crash(self, broker: Broker, down_ms: int) -> None:
        """Kill a broker; it is started again after a while. Its partitions move once that is noticed."""
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
        """Have another broker lead, or the same one anew.

        A broker that stands still resigns as well: its lease runs out by its own clock, so that is the first thing it
        does when it goes on.
        """
        leader = self._disk.replicas[partition].leader
        if leader >= 0:
            self._disk.resign(partition)
            self.brokers[leader].resign(partition)
            # A leader that resigns is a follower from then on, and cuts off what the new leader does not have.
            self._loop.call_later(self._loop.between(0, 1_000), partial(self._fail_over, partition))

    def fail_disk(self, partition: PartitionIndex, offline_ms: int) -> None:
        """A sync fails or damage shows: the partition is offline where it is led, and its uncommitted tail may be gone.

        It has a leader again after a while: another one, or the same after a repair.
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

    # Brokers that stand still

    def stall(self, broker: Broker, milliseconds: int, went_on: partial[None]) -> None:
        """Stop a broker's event loop for a while: nobody notices, it keeps what it leads."""
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
        """Brokers hear of a change of the topics, one after the other."""
        image = self._topics.image
        for broker in self.brokers:
            if broker.process is not None:
                self._loop.call_at(
                    self._loop.now_ms + self._loop.between(*delay_ms),
                    partial(broker.learn, image),
                    broker.process,
                    is_message=True,
                )

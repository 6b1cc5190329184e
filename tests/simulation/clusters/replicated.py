"""A world of brokers that replicate their partitions.

Brokers are killed at any time. A power failure takes what is not on the disk; without `klamm.fsync=ack` one occurs only
while all replicas are in sync. Until they are again, a leader is killed only in an ambush, when the broker that has
lost power serves again. So a majority keeps each record. Then no acknowledged record may be lost (I3), the replicas
must agree (I2), and the high watermark may not fall within a leader epoch (I5). At the end all replicas are in sync
again, and hold the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from tests.simulation.brokers.plan import BrokerPlan
from tests.simulation.clusters.ambushes import Ambushes
from tests.simulation.clusters.clients.administrator import ReplicaAdministrator
from tests.simulation.clusters.damage import damaging
from tests.simulation.clusters.plan import ClusterPlan, cluster_config, make_cluster_plan
from tests.simulation.clusters.world import ClusterWorld
from tests.simulation.logs.device import Strike
from tests.simulation.violation import Violation

from klamm.metadata.entries import apply
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import BrokerId, Offset, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.config.broker_config import BrokerConfig
    from klamm.storage.log import Log

__all__ = ["ReplicaWorld"]

_REPLICAS: Final = 3
_REPLICATE_MS: Final = 5_000


def make_replica_plan(random: Random, sizes: Random) -> tuple[BrokerPlan, ClusterPlan]:
    """Draws the plans of a world with replicas."""
    plan, cluster = make_cluster_plan(random, sizes)
    has_power = random.random() < 0.6
    plan = plan._replace(
        replication_factor=_REPLICAS,
        has_power_failures=has_power,
        has_kills=plan.has_kills or not has_power,
        topic_config=replace(plan.topic_config, min_insync_replicas=random.choice((1, 2, 2, 2))),
    )
    cluster = cluster._replace(has_moves=False)
    if sizes.random() < 0.5:
        return plan, cluster
    return plan, cluster._replace(
        has_ambushes=sizes.random() < 0.8,
        has_reassignments=sizes.random() < 0.4,
        has_min_isr_changes=sizes.random() < 0.4,
        damage_rate=sizes.choice((0.0, 0.0, 0.05, 0.2)),
    )


class ReplicaWorld(ClusterWorld):
    """The world of one seed."""

    make_plan = staticmethod(make_replica_plan)

    administrator: ReplicaAdministrator | None = None
    has_healed = False
    """Whether the faults are over."""
    max_lag_ms: int

    def config_of(self, number: BrokerId, folder: str) -> BrokerConfig:
        draw = Random(f"replication of {self.seed}")
        self.max_lag_ms = draw.choice((60, 300, 2_000))
        return replace(
            cluster_config(self.plan, self.cluster, folder, number),
            offsets_topic_replication_factor=_REPLICAS,
            transaction_state_log_replication_factor=_REPLICAS,
            transaction_state_log_min_isr=self.plan.topic_config.min_insync_replicas,
            replica_lag_time_max_ms=self.max_lag_ms,
            replica_fetch_wait_max_ms=draw.choice((10, 100)),
            replica_fetch_backoff_ms=draw.choice((20, 100)),
            replica_fetch_max_bytes=draw.choice((300, 2_000, 100_000)),
            replica_fetch_response_max_bytes=draw.choice((1_000, 100_000)),
        )

    # Checks

    def log_of(self, where: TopicPartition) -> Log | None:
        """Returns the log of the leader with the highest epoch: an earlier leader may not know of it yet."""
        leading = [partition for partition in self._copies(where) if partition.leads]
        return max(leading, key=lambda each: each.leader_epoch).log if leading else None

    def _copies(self, where: TopicPartition) -> Iterator[Partition]:
        for machine in self.machines.values():
            context = machine.context
            led = None if context is None else context.partitions.by_name.get(where.topic)
            partition = None if led is None else led.partitions[where.partition]
            if partition is not None:
                yield partition

    def _started(self, number: BrokerId) -> None:
        super()._started(number)
        context = self.machines[number].context
        assert context is not None
        context.partitions.on_leadership(self._check_leader)
        for led in context.partitions.by_name.values():
            for partition in led.partitions:
                if partition is not None and partition.leads:
                    self._check_leader(partition, True)

    def _check_leader(self, partition: Partition, is_leader: bool) -> None:
        """Checks that a new leader has all records that a client knows (I3)."""
        where = TopicPartition(partition.topic, partition.index)
        if not is_leader or not partition.accepts_writes:
            return
        self.life += 1
        epoch, end = partition.leader_epoch, partition.log.log_end_offset
        self.notes.add("%s is led in epoch %d from offset %d", str(where), epoch, end)
        model = self.model.partitions.get(where)
        if model is None:
            return
        known = max(model.known, default=-1)
        if epoch == self._image().topics[where.topic].partitions[where.partition].leader_epoch and end <= known:
            self.fail(Violation(3, f"{where} ends at {end} in leader epoch {epoch}, and offset {known} is known"))

    def _look(self) -> None:
        super()._look()
        for where in self.partitions:
            for partition in self._copies(where):
                if partition.leads:
                    self._check_high_watermark(where, partition)

    def _check_high_watermark(self, where: TopicPartition, partition: Partition) -> None:
        key = where, partition.leader_epoch
        now, before = partition.log.high_watermark, self._high_watermarks.get(key, Offset(0))
        if now < before:
            raise Violation(5, f"the high watermark of {where} falls from {before} to {now} in leader epoch {key[1]}")
        self._high_watermarks[key] = now

    # The course of events

    def run(self) -> None:
        self._high_watermarks: dict[tuple[TopicPartition, int], Offset] = {}
        self._has_lost_power = False
        self._ambushes = Ambushes(self)
        if self.cluster.has_ambushes:
            self.metadata.watcher = self._ambushes.written
        draw = Random(f"damage of {self.seed}")
        with damaging(draw, self.notes.add, lambda: 0.0 if self.has_healed else self.cluster.damage_rate):
            super().run()

    def _make_clients(self) -> None:
        super()._make_clients()
        if self.cluster.has_reassignments or self.cluster.has_min_isr_changes:
            self.administrator = ReplicaAdministrator(self, "administrator")

    def _trouble(self) -> None:
        super()._trouble()
        if self.cluster.has_ambushes and self.cluster.has_min_isr_changes and self.max_lag_ms < 1_000:
            self._ambushes.lower()
        if self.cluster.has_ambushes and self.plan.fsync != "ack" and self._may_lose_power():
            self._ambushes.take_power()

    @property
    def lacks_power(self) -> bool:
        """Whether a broker that has lost records in a power failure does not serve yet."""
        return self._has_lost_power and not self._all_serve()

    def come_back(self, number: BrokerId, after_ms: float) -> None:
        """Ends the session of a broker that is dead, and starts it again soon."""
        self.metadata.end(self._sessions[number])
        self._due[number] = self.loop.now_ms + after_ms

    def _heal(self) -> None:
        self.has_healed = True
        super()._heal()

    def break_watch(self, number: BrokerId, duration_ms: float) -> None:
        """Breaks a broker's watch of the metadata store."""
        self._sessions[number].break_watch(duration_ms)

    def die(self, number: BrokerId, strike: Strike) -> None:
        """Ends a broker's process."""
        self._die(number, strike)

    def _image(self) -> MetadataImage:
        return apply(EMPTY_IMAGE, self.metadata.revision, self.metadata.entries)

    def _replicated(self) -> Iterator[tuple[TopicPartition, PartitionImage]]:
        for topic in self._image().topics.values():
            for partition in topic.partitions:
                if len(partition.replicas) > 1:
                    yield TopicPartition(topic.name, partition.index), partition

    def is_settled(self) -> bool:
        """All replicas are in sync, and no reassignment is in progress."""
        return all(_is_settled(partition) for _, partition in self._replicated())

    def why_unsettled(self) -> str:
        behind = {
            str(where): list(partition.isr) for where, partition in self._replicated() if not _is_settled(partition)
        }
        return f"not all replicas are in sync: {behind}"

    def _is_recovering(self) -> bool:
        """Returns whether a replica has lost records in a power failure and is not in sync again: until then, another
        fault would leave no majority of replicas."""
        if self._has_lost_power and self._all_serve() and self.is_settled():
            self._has_lost_power = False
        return self._has_lost_power

    def _die(self, number: BrokerId, strike: Strike | None) -> None:
        if strike is Strike.POWER and self.plan.fsync != "ack":
            self._has_lost_power = True
            for machine in self.machines.values():
                machine.device.disarm()
        super()._die(number, strike)

    def lose_session(self, number: BrokerId) -> None:
        if not self._is_recovering():
            super().lose_session(number)

    def _some_strike(self) -> Strike | None:
        if self._is_recovering():
            return None
        strike = super()._some_strike()
        if strike is Strike.POWER and self.plan.fsync != "ack":
            return Strike.POWER if self._may_lose_power() else Strike.KILL
        return strike

    def _may_lose_power(self) -> bool:
        is_safe = self._all_serve() and not self._ambushes.is_busy
        return self.plan.has_power_failures and is_safe and self.is_settled()

    def arm(self, number: BrokerId, strike: Strike, calls: int) -> None:
        if strike is Strike.POWER and self.plan.fsync != "ack":
            strike = Strike.KILL  # nobody knows whether all replicas are in sync when it occurs
        super().arm(number, strike, calls)

    def _end(self) -> None:
        super()._end()
        if not self._run(_REPLICATE_MS, self._is_copied):
            raise Violation(26, f"the replicas do not end at the same offset after {_REPLICATE_MS} ms")
        for where in self.partitions:
            self._compare(where)

    def _logs(self, where: TopicPartition) -> list[Log]:
        replicas = self._image().topics[where.topic].partitions[where.partition].replicas
        return [self.machines[number].logs[where] for number in replicas]

    def _is_copied(self) -> bool:
        return all(len({log.log_end_offset for log in self._logs(where)}) == 1 for where in self.partitions)

    def _compare(self, where: TopicPartition) -> None:
        """Compares the bytes of all replicas (I2)."""
        logs = self._logs(where)
        start = max(log.log_start_offset for log in logs)
        contents = {_content(log, start) for log in logs}
        if len(contents) > 1:
            raise Violation(2, f"the replicas of {where} hold different bytes")


def _is_settled(partition: PartitionImage) -> bool:
    is_reassigned = bool(partition.adding or partition.removing)
    return len(partition.isr) == len(partition.replicas) and not is_reassigned


def _content(log: Log, start: Offset) -> bytes:
    parts = []
    offset = start
    while offset < log.log_end_offset:
        part = log.read(offset, 1_000_000, upper_bound=log.log_end_offset, minimum_one_batch=True)
        for position, header in iterate_batches(part):
            if header.base_offset >= start:
                parts.append(bytes(part[position : position + header.size_bytes]))
            offset = header.next_offset
    return b"".join(parts)

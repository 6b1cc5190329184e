"""A world of brokers that replicate their partitions.

There are two modes. With faults that leave a majority, brokers are killed at any time, also all at once. A power
failure takes what is not on the disk; without `klamm.fsync=ack` fewer brokers than `min.insync.replicas` lose power
until all replicas are in sync again. If `min.insync.replicas` is one, or is lowered, a leader is meanwhile killed only
in an ambush, when the broker that has lost power serves again. So an eligible replica keeps each record. Then no
acknowledged record may be lost (I3), the replicas must agree (I2), and the high watermark may not fall within a leader
epoch (I5). At the end all replicas are in sync again, and hold the same bytes.

In some worlds of both modes, single disks fail. The disk of one broker fails at a time, and the budget is that of a
power failure: until all replicas are in sync again, no other broker loses records.

With unlimited faults, any number of brokers fail at once. Only safety is checked: records may be lost only where the
metadata record an unclean election, because a power failure has taken unsynced records, or because the topic allows
such elections. Nothing needs to make progress.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from tests.simulation.brokers.clients.reader import Reader
from tests.simulation.brokers.model import Batch
from tests.simulation.brokers.plan import BrokerPlan
from tests.simulation.clusters.ambushes import Ambushes
from tests.simulation.clusters.clients.administrator import ReplicaAdministrator
from tests.simulation.clusters.clients.follower_reader import FollowerReader
from tests.simulation.clusters.clients.record_deleter import RecordDeleter
from tests.simulation.clusters.clients.unclean_elector import UncleanElector
from tests.simulation.clusters.compaction_checks import COMPACTED, check_alike, small_segments
from tests.simulation.clusters.damage import damaging
from tests.simulation.clusters.detours import SHORTEST_LAG_MS
from tests.simulation.clusters.disk_faults import DiskFaults
from tests.simulation.clusters.former_leaders import FormerLeaders
from tests.simulation.clusters.lapses import COMMITS, COORDINATES, REMEMBERS, Lapses
from tests.simulation.clusters.plan import MAJORITY, UNLIMITED, ClusterPlan, cluster_config
from tests.simulation.clusters.replica_checks import ReplicaChecks
from tests.simulation.clusters.replica_plan import (
    REPLICAS,
    compacting,
    make_replica_plan,
    with_compaction,
    with_deletions,
    with_disk_faults,
    with_lapses,
    with_unclean_elections,
    without_limit,
)
from tests.simulation.clusters.returns import Returns
from tests.simulation.clusters.unlimited import UnlimitedFaults
from tests.simulation.logs.device import Strike
from tests.simulation.violation import Violation

from klamm.metadata.image import PartitionImage
from klamm.metadata.metadata_store import Change
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import BrokerId, Offset, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.clusters.metadata_store import Session

    from klamm.broker.partitions.partition import Partition
    from klamm.config.broker_config import BrokerConfig
    from klamm.storage.log.log import Log

__all__ = ["ReplicaWorld"]

_REPLICATE_MS: Final = 5_000
_SOME_RECORDS: Final = 8
_SHORTEST_TIMEOUT_MS: Final = 40
"""The shortest timeout of sessions."""
_UNLIMITED_CHANCE: Final = 0.4
_UNREGISTRATION_CHANCE: Final = 0.3
_DELETION_CHANCE: Final = 0.4
_COMPACTION_CHANCE: Final = 0.4
_UNCLEAN_CHANCE: Final = 0.15
_DISK_CHANCE: Final = 0.3
_LAPSE_CHANCE: Final = 0.4
_SLOW_LAG_MS: Final = 5_000
"""A time after which followers lag that is longer than a world. Then a replica whose log has failed leaves the in-sync
replicas only if its broker gives up its place."""
_SETTLE_MS: Final = 10_000
"""How long a world with unlimited faults waits at the end for all replicas."""


class ReplicaWorld(FormerLeaders):
    """The world of one seed."""

    def __init__(
        self,
        seed: int,
        *,
        listener: Callable[[str], None] | None = None,
        sums: bool = False,
        faults: str | None = None,
    ) -> None:
        """Draws the plans. `faults`: `MAJORITY` or `UNLIMITED`, None if the seed decides."""
        self._of_mode = Random(f"faults of {seed}")
        drawn = UNLIMITED if self._of_mode.random() < _UNLIMITED_CHANCE else MAJORITY
        self._faults = faults or drawn
        self._of_disks = Random(f"disks of {seed}")
        self._has_disk_faults = self._of_disks.random() < _DISK_CHANCE
        self._of_lapses = Random(f"lapses of {seed}")
        self._lapse: str | None = None
        self._of_deletions = Random(f"deletions of {seed}")
        self._has_compaction = Random(f"compactions of {seed}").random() < _COMPACTION_CHANCE
        self._has_unclean_elections = Random(f"unclean elections of {seed}").random() < _UNCLEAN_CHANCE
        self._has_unregistrations = Random(f"unregistrations of {seed}").random() < _UNREGISTRATION_CHANCE
        super().__init__(seed, listener=listener, sums=sums)
        self.is_unlimited = self.cluster.faults == UNLIMITED
        takes_records = self.plan.has_power_failures or self.cluster.has_disk_faults
        self._loses_unsynced = self.is_unlimited and self.plan.fsync != "ack" and takes_records
        self.may_lose = self._loses_unsynced or self.cluster.has_unclean_elections
        """Whether acknowledged records may be lost, if the metadata record it."""

    def make_plans(self, random: Random, sizes: Random) -> tuple[BrokerPlan, ClusterPlan]:
        plan, cluster = self._make_plans(random, sizes)
        if self._has_compaction:
            plan, cluster = with_compaction(plan, cluster)
        # Where records may be lost, no client knows which of them are left.
        has_readers = cluster.faults != UNLIMITED or plan.readers > 0
        if self._lapse is None and has_readers and self._of_deletions.random() < _DELETION_CHANCE:
            return with_deletions(self._of_deletions, plan, cluster)
        return plan, cluster

    def _make_plans(self, random: Random, sizes: Random) -> tuple[BrokerPlan, ClusterPlan]:
        plans = make_replica_plan(random, sizes)
        plan, cluster = without_limit(self._of_mode, *plans) if self._faults == UNLIMITED else plans
        cluster = cluster._replace(has_unregistrations=self._has_unregistrations)
        if self._faults == UNLIMITED and self._has_unclean_elections:
            return with_unclean_elections(plan, cluster)
        if self._has_disk_faults:
            return with_disk_faults(plan, cluster)
        self._lapse = self._draw_lapse(plan)
        return (plan, cluster) if self._lapse is None else with_lapses(plan, cluster, self._lapse)

    def _draw_lapse(self, plan: BrokerPlan) -> str | None:
        draw = self._of_lapses
        if draw.random() >= _LAPSE_CHANCE:
            return None
        # A world that may lose records has no committer.
        has_committer = self._faults != UNLIMITED or plan.fsync == "ack" or not plan.has_power_failures
        return draw.choice((COMMITS, COORDINATES if has_committer else COMMITS, REMEMBERS))

    moves_calmly = False
    administrator: ReplicaAdministrator | None = None
    has_settled = True
    """False if brokers and replicas were not in order again some time after unlimited faults had ended."""
    max_lag_ms: int

    def config_of(self, number: BrokerId, folder: str) -> BrokerConfig:
        draw = Random(f"replication of {self.seed}")
        self.max_lag_ms = draw.choice((60, 300, 2_000))
        if self.cluster.has_disk_faults and self.max_lag_ms > 1_000:
            self.max_lag_ms = _SLOW_LAG_MS
        if self._lapse == REMEMBERS:
            self.max_lag_ms = max(self.max_lag_ms, SHORTEST_LAG_MS)
        config = cluster_config(self.plan, self.cluster, folder, number)
        if self.cluster.has_compaction:
            config = compacting(Random(f"cleaners of {self.seed}"), config)
        return replace(
            config,
            offsets_topic_replication_factor=REPLICAS,
            transaction_state_log_replication_factor=REPLICAS,
            transaction_state_log_min_isr=self.plan.topic_config.min_insync_replicas,
            replica_lag_time_max_ms=self.max_lag_ms,
            replica_fetch_wait_max_ms=draw.choice((10, 100)),
            replica_fetch_backoff_ms=draw.choice((20, 100)),
            replica_fetch_max_bytes=draw.choice((300, 2_000, 100_000)),
            replica_fetch_response_max_bytes=draw.choice((1_000, 100_000)),
        )

    def reader_kind(self) -> type[Reader]:
        return self.loop.random.choice((Reader, FollowerReader))

    # Checks

    def log_of(self, where: TopicPartition) -> Log | None:
        """Returns the log of the leader with the highest epoch: an earlier leader may not know of it yet."""
        leading = [partition for partition in self._copies(where) if partition.leads]
        return max(leading, key=lambda each: each.leader_epoch).log if leading else None

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
        """Checks that a new leader has all committed records, and all that a client knows (I3)."""
        where = TopicPartition(partition.topic, partition.index)
        if not is_leader or not partition.accepts_writes:
            return
        self.life += 1
        try:
            self.checks.begins_to_lead(partition)
        except Violation as violation:
            self.fail(violation)
        epoch, end = partition.leader_epoch, partition.log.log_end_offset
        self.notes.add("%s is led in epoch %d from offset %d", str(where), epoch, end)
        model = self.model.partitions.get(where)
        if model is None:
            return
        known = max(model.known, default=-1)
        if epoch == self._image().topics[where.topic].partitions[where.partition].leader_epoch and end <= known:
            self.fail(Violation(3, f"{where} ends at {end} in leader epoch {epoch}, and offset {known} is known"))

    def check_session(self, partition: Partition) -> None:
        """Checks that no broker commits a record after its session has timed out (I6)."""
        for number, machine in self.machines.items():
            if machine.logs.get(partition.log.topic_partition) is partition.log:
                session = self._sessions[number]
                if session.has_timed_out:
                    raise Violation(6, f"the session of {session.name} has timed out, and it commits in {partition}")

    def acknowledged(self, batch: Batch, first_offset: int) -> None:
        """Records an acknowledgement. A leader that has lost its place may acknowledge what is lost later, so that the
        model can't tell what must remain: `ReplicaChecks` does."""
        if not self.may_lose:
            super().acknowledged(batch, first_offset)

    def _look(self) -> None:
        super()._look()
        self.checks.look()
        self._disks.look()
        self._lapses.strike()
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
        self.ambushes = Ambushes(self)
        self.unlimited = UnlimitedFaults(self)
        self._disks = DiskFaults(self, self._of_disks)
        self._returns = Returns(self, Random(f"returns of {self.seed}"))
        self._lapses = Lapses(self, self._lapse, self._of_lapses)
        self.checks = ReplicaChecks(self)
        self.metadata.watcher = self.checks.written
        if self.cluster.has_ambushes:
            self.checks.observers.append(self.ambushes.written)
        self.metadata.courier = self._sent
        draw, sizes = Random(f"damage of {self.seed}"), Random(f"sizes of internal segments of {self.seed}")
        with (
            damaging(draw, self.notes.add, lambda: 0.0 if self.has_healed else self.cluster.damage_rate),
            self.checks.attached(),
            self._disks.attached(),
            small_segments(sizes) if self.cluster.has_compaction else nullcontext(),
        ):
            super().run()

    def _sent(self, session: Session, changes: Sequence[Change]) -> Callable[[], bool] | None:
        held = self._disks.sent(session, changes) if self.cluster.has_disk_faults else None
        if held is None and self.cluster.has_unclean_elections:
            held = self._returns.sent(session, changes)
        if held is None and self.cluster.has_ambushes:
            return self.ambushes.sent(session, changes)
        return held

    def _make_clients(self) -> None:
        super()._make_clients()
        cluster = self.cluster
        if cluster.has_reassignments or cluster.has_min_isr_changes or cluster.has_unregistrations:
            self.administrator = ReplicaAdministrator(self, "administrator")
        if cluster.has_deletions:
            RecordDeleter(self, "deleter", self._of_deletions)
        if cluster.has_unclean_elections:
            UncleanElector(self, "elector", Random(f"elections of {self.seed}"))

    def _trouble(self) -> None:
        super()._trouble()
        if self.cluster.has_ambushes and self.cluster.has_min_isr_changes and self.max_lag_ms < 1_000:
            self.ambushes.lower()
        if self.cluster.has_blackouts and self._all_serve() and self._has_records() and self._has_all_logs():
            self.ambushes.black_out(self._most_dark())
        if self.cluster.has_ambushes and self.cluster.has_reassignments:
            self.ambushes.return_replica()
        if self.cluster.has_ambushes:
            self.ambushes.restart_one()
        if self.is_unlimited and not self.ambushes.is_under_way:
            self.unlimited.strike()
        if self.cluster.has_disk_faults:
            self._disks.strike()

    @property
    def lacks_power(self) -> bool:
        """Whether a broker that has lost records in a power failure does not serve yet, and a majority must remain.

        A broker whose disk fails serves. If a leader without another copy is killed meanwhile, the broker may be the
        only one that is still in sync, so that no replica with a usable log may lead.
        """
        if self.is_unlimited:
            return False
        lacks_disk = self._disks.is_under_way and not self._survives_kills
        return lacks_disk or (self._has_lost_power and not self._all_serve())

    def may_lose_disk(self, number: BrokerId) -> bool:
        """Returns whether a broker may lose what is on its disk: all other brokers serve, and their replicas are in
        sync."""
        others = [other for other in self.machines if other != number]
        serve = all(self.has_session(other) and not self.is_stopping(other) for other in others)
        lack_none = all(set(partition.replicas) - set(partition.isr) <= {number} for _, partition in self._replicated())
        is_calm = not self.ambushes.is_under_way and not self._lacks_records() and not self.has_healed
        return serve and lack_none and is_calm and self._has_all_logs() and not self.is_stopping(number)

    def has_session(self, number: BrokerId) -> bool:
        """Returns whether a broker serves, and the other brokers see it."""
        return self.machines[number].is_serving and not self._sessions[number].is_over

    def is_in_order(self) -> bool:
        """Returns whether all brokers serve and all replicas are in sync."""
        return self._all_serve() and self.is_settled()

    def disarm(self) -> None:
        """Lets no process die of a strike that was armed."""
        for machine in self.machines.values():
            machine.device.disarm()

    def stop(self, number: BrokerId) -> None:
        """Stops a broker in order."""
        self._stop(number)

    def come_back(self, number: BrokerId, after_ms: float) -> None:
        """Ends the session of a broker that is dead, and starts it again soon."""
        if number in self._sessions:
            self.metadata.end(self._sessions[number])
        self._due[number] = self.loop.now_ms + after_ms

    def _heal(self) -> None:
        super()._heal()
        for machine in self.machines.values():
            machine.go_on()
        self._disks.heal()

    def break_watch(self, number: BrokerId, duration_ms: float) -> None:
        """Breaks a broker's watch of the metadata store."""
        self._sessions[number].break_watch(duration_ms)

    def die(self, number: BrokerId, strike: Strike) -> None:
        """Ends a broker's process."""
        self._die(number, strike)

    def coordinator_of_committer(self) -> BrokerId | None:
        """Returns the broker that coordinates the group of the committer, according to the metadata."""
        found = None if self.committer_group is None else self._offsets_partition(self.committer_group)
        return None if found is None else found.leader

    def _replicated(self) -> Iterator[tuple[TopicPartition, PartitionImage]]:
        for topic in self._image().topics.values():
            for partition in topic.partitions:
                if len(partition.replicas) > 1:
                    yield TopicPartition(topic.name, partition.index), partition

    def _alone(self) -> Iterator[tuple[TopicPartition, BrokerId]]:
        """Yields the partitions with records of which a reassignment has left one replica, with its broker."""
        for where in self.model.partitions:
            topic = self._image().topics.get(where.topic)
            if topic is not None and len(replicas := topic.partitions[where.partition].replicas) == 1:
                yield where, replicas[0]

    @property
    def has_lone_replicas(self) -> bool:
        """Whether a partition with records has one replica, whose records a power failure may take."""
        return any(True for _ in self._alone())

    def is_settled(self) -> bool:
        """All replicas are in sync, and no reassignment is in progress."""
        return all(_is_settled(partition) for _, partition in self._replicated())

    def why_unsettled(self) -> str:
        behind = {
            str(where): list(partition.isr) for where, partition in self._replicated() if not _is_settled(partition)
        }
        return f"not all replicas are in sync: {behind}"

    def _is_recovering(self) -> bool:
        """Returns whether a replica has lost records in a power failure or on its disk, and is not in sync again: until
        then, another fault would leave no majority of replicas."""
        return not self.is_unlimited and (self._lacks_records() or self._disks.is_under_way)

    def _lacks_records(self) -> bool:
        if self._has_lost_power and self.is_in_order():
            self._has_lost_power = False
        return self._has_lost_power

    def _die(self, number: BrokerId, strike: Strike | None) -> None:
        if strike is Strike.POWER and self.plan.fsync != "ack" and not self.is_unlimited:
            self._has_lost_power = True
            self.disarm()
        if strike is Strike.POWER and self._loses_unsynced:
            self.checks.may_lose(where for where, broker in self._alone() if broker == number)
        super()._die(number, strike)
        self._disks.ended(number)

    def cut_off(self, number: BrokerId, duration_ms: float, timeout_ms: float | None = None) -> None:
        """Lets a broker not reach the metadata store for some time. `timeout_ms`: after which time its session ends."""
        timeout_ms = max(self.cluster.lease_ms, _SHORTEST_TIMEOUT_MS) if timeout_ms is None else timeout_ms
        self.metadata.cut_off(f"broker {number}", duration_ms, timeout_ms)

    def heal_links(self) -> None:
        if not self.ambushes.is_under_way:
            super().heal_links()

    def lose_session(self, number: BrokerId) -> None:
        if self._survives_kills or not self._is_recovering():
            super().lose_session(number)

    def _some_strike(self) -> Strike | None:
        if self.ambushes.is_under_way or not self._has_all_logs():
            return None
        if self._is_recovering():
            return Strike.KILL if self._survives_kills and self.plan.has_kills else None
        strike = super()._some_strike()
        if strike is Strike.POWER and self.plan.fsync != "ack":
            return Strike.POWER if self._may_lose_power() else Strike.KILL
        return strike

    def _has_records(self) -> bool:
        """Returns whether clients know enough records for a loss to be seen."""
        return any(len(model.known) >= _SOME_RECORDS for model in self.model.partitions.values())

    def _most_dark(self) -> int:
        """Returns how many brokers may lose their power together with all others being killed."""
        may_lose_power = self.plan.has_power_failures and self._survives_kills and not self._is_recovering()
        may_lose_power = may_lose_power and not self.has_lone_replicas
        return self.plan.topic_config.min_insync_replicas - 1 if may_lose_power else 0

    @property
    def _survives_kills(self) -> bool:
        """Whether no record is lost if any number of brokers are killed while one that has lost power is not in sync.

        With `min.insync.replicas` of one, the broker may be the only one in sync until its session has ended.
        """
        has_copies = self.plan.topic_config.min_insync_replicas > 1 and not self.cluster.has_min_isr_changes
        return has_copies and not self.cluster.has_unregistrations

    def _has_all_logs(self) -> bool:
        """Returns whether all replicas that run have their logs. Brokers fail earlier only with unlimited faults."""
        if self.is_unlimited:
            return True
        running = {number: machine.logs for number, machine in self.machines.items() if machine.is_serving}
        return all(
            where in running[number]
            for where, partition in self._replicated()
            for number in partition.replicas
            if number in running
        )

    def some_strike(self) -> Strike | None:
        """Returns how a broker may fail now; None if it may not."""
        return self._some_strike()

    def may_take_power_of(self, number: BrokerId) -> bool:
        """Returns whether a broker that is about to join in-sync replicas may lose power."""
        if not self.machines[number].is_alive or not self.plan.has_power_failures:
            return False
        if self.is_unlimited:
            return True
        if self.plan.fsync == "ack":
            return not self._disks.is_under_way
        # Another replica of each partition holds all committed records.
        has_others = all(set(partition.isr) - {number} for _, partition in self._replicated())
        return has_others and self._all_serve() and not self.ambushes.is_busy and not self._is_recovering()

    def may_leave(self, number: BrokerId) -> bool:
        """Returns whether an administrator may remove a running broker: all replicas are in sync. The next run of a
        removed broker has no places, so a power failure of the only other replica in sync could take records."""
        is_safe = self._all_serve() and self.is_settled() and not self.ambushes.is_busy
        return self.machines[number].is_serving and is_safe and not self._is_recovering() and not self.has_healed

    @property
    def may_change_min_isr(self) -> bool:
        """Whether an administrator may change `min.insync.replicas`. A lower value takes the places of eligible leader
        replicas. If a leader whose disk has failed is then the only one in sync, no other may lead, and what the disk
        has lost is lost, as with Apache Kafka."""
        return self.is_unlimited or not self._disks.is_under_way

    def has_committed(self, leader: BrokerId) -> None:
        """Notes that a leader has raised its high watermark."""
        if self.cluster.has_ambushes:
            self.ambushes.committed(leader)

    def _may_lose_power(self) -> bool:
        if self.is_unlimited:
            return self.plan.has_power_failures
        # A broker that is unregistered loses its places, as in Kafka, also that of an eligible leader replica.
        is_safe = self._all_serve() and not self.ambushes.is_busy and not self.cluster.has_unregistrations
        is_safe = is_safe and not self.has_lone_replicas
        return self.plan.has_power_failures and is_safe and self.is_settled()

    def arm(self, number: BrokerId, strike: Strike, calls: int) -> None:
        if strike is Strike.POWER and self.plan.fsync != "ack" and not self.is_unlimited:
            strike = Strike.KILL  # nobody knows whether all replicas are in sync when it occurs
        super().arm(number, strike, calls)

    def _end(self) -> None:
        if self.is_unlimited and not self._settles():
            return
        if not self.is_unlimited:
            self._heal()
            self._disks.check_given_up(self._run)
            self._disks.restart()
        super()._end()
        if not self._run(_REPLICATE_MS, self._is_copied):
            raise Violation(26, f"the replicas do not end at the same offset after {_REPLICATE_MS} ms")
        if not self._run(_REPLICATE_MS, self._begin_alike):
            raise Violation(26, f"the replicas do not begin at the offsets of their leaders after {_REPLICATE_MS} ms")
        for where in self.partitions:
            self._compare(where)
        if not self._run(_REPLICATE_MS, self._internal_topics_are_alike):
            raise Violation(26, f"the replicas of internal topics lack committed records after {_REPLICATE_MS} ms")
        if not self._run(_REPLICATE_MS, lambda: self.checks.states.why_diverging() is None):
            raise Violation(26, f"the metadata do not converge: {self.checks.states.why_diverging()}")
        self.checks.look()

    def _settles(self) -> bool:
        """Ends all faults, and returns whether all brokers and replicas are in order again some time later."""
        self._heal()
        self._disks.restart()
        self.has_settled = self._run(_SETTLE_MS, self.is_in_order)
        if not self.has_settled:
            self.notes.add("the world does not settle: %s", self.why_unsettled())
        return self.has_settled

    def _logs(self, where: TopicPartition) -> list[Log]:
        """Returns the logs of the replicas. A replica that has just been added may have none yet."""
        replicas = self._image().topics[where.topic].partitions[where.partition].replicas
        return [log for number in replicas if (log := self.machines[number].logs.get(where)) is not None]

    def _is_copied(self) -> bool:
        return self.is_settled() and all(
            len({log.log_end_offset for log in self._logs(where)}) == 1 for where in self.partitions
        )

    def _begin_alike(self) -> bool:
        """Returns whether no follower has records that its leader has deleted. A leader that has started again may have
        records that a follower has deleted."""
        return all(
            (leader := self.log_of(where)) is not None
            and all(log.log_start_offset >= leader.log_start_offset for log in self._logs(where))
            for where in self.partitions
        )

    def _internal_topics_are_alike(self) -> bool:
        """Returns whether all replicas of internal topics have all committed records; compares them then (I2)."""
        compacted = [where for where, _ in self._replicated() if where.topic in COMPACTED]
        ends = {where: self.checks.committed.get(where, 0) for where in compacted}
        if any(log.high_watermark < ends[where] for where in compacted for log in self._logs(where)):
            return False
        for where in compacted:
            if not self.checks.may_lack_records(where):
                check_alike(where, self._logs(where), Offset(ends[where]))
        return True

    def _compare(self, where: TopicPartition) -> None:
        """Compares the bytes of all replicas (I2)."""
        logs = self._logs(where)
        start = max(Offset(self.model.partitions[where].deleted), *(log.log_start_offset for log in logs))
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

"""The faults of a world: which faults occur, when they occur, and how they end.

While the plan allows it, one of the plan's kinds of trouble occurs from time to time. Each kind is a method here. Each
fault ends by itself, or when `heal` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.checkers.view import is_loading
from tests.simulation.disk import STATE_PARTITION, Batch
from tests.simulation.members.classic import ClassicMember
from tests.simulation.members.consumer import ConsumerMember
from tests.simulation.members.member import Member
from tests.simulation.members.producer import TransactionalProducer
from tests.simulation.plan import Trouble

from klamm.protocol.errors import ErrorCode
from klamm.protocol.records import decode_batch
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue
from klamm.protocol.types import PartitionIndex
from klamm.runtime.record_serde import GroupRecordSerde

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.world import World

__all__ = ["Faults"]

_APPEND_ERRORS = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT)


_OF_PRODUCERS = frozenset({Trouble.PRODUCER_CRASHES, Trouble.PRODUCER_STALLS, Trouble.PRODUCER_ZOMBIES})


class Faults:
    """The faults of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._loop = world.loop
        self._plan = world.plan
        strikes: Mapping[Trouble, Callable[[], None]] = {
            Trouble.MEMBER_CRASHES: self._member_crashes,
            Trouble.MEMBER_STALLS: self._member_stalls,
            Trouble.MEMBER_LEAVES: self._member_leaves,
            Trouble.MEMBER_IS_SLOW: self._member_is_slow,
            Trouble.MEMBER_RESUBSCRIBES: self._member_resubscribes,
            Trouble.MEMBER_HAS_TWIN: self._member_has_twin,
            Trouble.MEMBER_MIGRATES: self._member_migrates,
            Trouble.ZOMBIES: world.zombies.act,
            Trouble.ADMINISTRATOR: world.administrator.act,
            Trouble.SLOW_ASSIGNMENTS: self._slow_assignment,
            Trouble.HELD_ASSIGNMENTS: self._held_assignment,
            Trouble.LATE_COMMITS: self._late_commit,
            Trouble.BROKER_CRASHES: self._broker_crashes,
            Trouble.BROKER_STALLS: self._broker_stalls,
            Trouble.COORDINATOR_MOVES: self._coordinator_moves,
            Trouble.SLOW_REPLICAS: self._slow_replicas,
            Trouble.APPEND_ERRORS: self._append_errors,
            Trouble.FULL_DISK: self._full_disk,
            Trouble.FAILED_SYNC: self._failed_sync,
            Trouble.SLOW_READS: self._slow_reads,
            Trouble.COMPACTION: self._compaction,
            Trouble.CLOCK_JUMPS: self._clock_jumps,
            Trouble.TOPICS_CHANGE: self._topics_change,
            Trouble.BROKEN_CONNECTIONS: partial(self._bad_network, "reset_rate", 0.2),
            Trouble.LOST_MESSAGES: partial(self._bad_network, "loss_rate", 0.2),
            Trouble.LATE_MESSAGES: partial(self._bad_network, "slow_rate", 0.3),
            Trouble.REPEATED_MESSAGES: partial(self._bad_network, "duplicate_rate", 0.3),
            Trouble.CUT_NETWORK: self._cut_network,
            Trouble.PRODUCER_CRASHES: lambda: self._some_producer().crash(),
            Trouble.PRODUCER_STALLS: lambda: self._some_producer().pause(),
            Trouble.PRODUCER_ZOMBIES: lambda: self._some_producer().haunt(),
        }
        self._strikes = [
            (trouble, strike)
            for trouble, strike in strikes.items()
            if trouble in self._plan.troubles and (self._plan.producers or trouble not in _OF_PRODUCERS)
        ]
        self._has_ended = False
        self._serde = GroupRecordSerde()

    def begin(self) -> None:
        """Schedules the next fault."""
        if self._strikes:
            self._loop.call_later(self._loop.between(0, 2 * self._plan.trouble_interval_ms), self._strike)

    def _strike(self) -> None:
        if self._has_ended:
            return
        trouble, strike = self._loop.random.choice(self._strikes)
        self._world.note("%s", trouble.value)
        strike()
        self.begin()

    def heal(self) -> None:
        """Ends all faults; no fault occurs from now on."""
        self._has_ended = True
        world = self._world
        world.network.heal()
        world.disk.append_error = None
        world.disk.read_ms = 0
        world.disk.watch = None
        for partition in world.disk.replicas:
            world.disk.set_slow(partition, False)

    def _for_a_while(self, end: Callable[[], None], low_ms: int = 200, high_ms: int = 8_000) -> None:
        self._loop.call_later(self._loop.between(low_ms, high_ms), end)

    # Members

    def _some_member(self) -> Member:
        return self._loop.random.choice(self._world.members)

    def _member_crashes(self) -> None:
        member = self._some_member()
        if member.is_running:
            member.crash()
            self.start_again(member)

    def start_again(self, member: Member, low_ms: int = 100, high_ms: int = 15_000) -> None:
        """Schedules the restart of a member that has ended, as a supervisor does."""

        def start() -> None:
            if not self._has_ended:
                self._world.start_member(member)

        self._loop.call_later(self._loop.between(low_ms, high_ms), start)

    def _member_stalls(self) -> None:
        self._some_member().stall(self._loop.between(500, 20_000))

    def _member_leaves(self) -> None:
        member = self._some_member()
        if member.is_running:
            member.shut_down()
            self.start_again(member)

    def _member_is_slow(self) -> None:
        self._some_member().be_slow(self._loop.between(1_000, 20_000))

    def _member_resubscribes(self) -> None:
        member, topics = self._some_member(), list(self._plan.topics)
        count = self._loop.between(1, len(topics))
        wanted = tuple(self._loop.random.sample(topics, count))
        # A static member that restarts with another subscription is not noticed, here as in Apache Kafka.
        if member.plan.instance_id is None:
            member.resubscribe(wanted)

    def _member_has_twin(self) -> None:
        """Starts a second process with the same instance id: one of the two is fenced."""
        member = self._some_member()
        if member.plan.instance_id is not None and not member.is_fenced:
            self._world.start_twin(member)

    def _member_migrates(self) -> None:
        self._world.migrate(self._some_member())

    def _slow_assignment(self) -> None:
        """Delays the next assignment that a member makes as the group's leader; the member's heartbeats continue."""
        member = self._some_member()
        if isinstance(member, ClassicMember):
            member.be_slow_to_assign(self._loop.between(500, 14_000))

    def _held_assignment(self) -> None:
        """Delays the commit of a classic group's next assignment. During the delay one or all of its members are
        removed or restart.
        """
        disk, loop = self._world.disk, self._loop
        member = self._some_member()
        group_id = member.plan.group_id
        goes_on_without_any = loop.chance(0.5)

        def watch(partition: PartitionIndex, batch: Batch) -> None:
            if partition != STATE_PARTITION and self._is_assignment(batch, group_id):
                disk.watch = None
                disk.set_slow(partition, True)
                loop.call_later(loop.between(300, 4_500), partial(disk.set_slow, partition, False))
                for each in [each for each in self._world.members if each.plan.group_id == group_id]:
                    if each is member or goes_on_without_any:
                        loop.call_later(loop.between(1, 300), partial(self._goes, each))

        disk.watch = watch

    def _is_assignment(self, batch: Batch, group_id: str) -> bool:
        if batch.is_control:
            return False
        for record in decode_batch(batch.data):
            decoded = self._serde.deserialize(record.key or b"", record.value)
            value = None if decoded is None else decoded.value
            if isinstance(value, GroupMetadataValue) and value.members:
                assert decoded is not None
                return getattr(decoded.key, "group", "") == group_id
        return False

    def _goes(self, member: Member) -> None:
        if self._has_ended or not isinstance(member, ClassicMember) or not member.is_running or not member.member_id:
            return
        if member.plan.instance_id is None:
            self._world.administrator.remove(member)
            member.crash()
            self.start_again(member)
        else:
            # The static member joins again at once, and its join does not wait for anything uncommitted.
            member.crash()
            self.start_again(member, 1, 100)

    def _late_commit(self) -> None:
        """Sends a commit of an earlier epoch together with one of the current epoch, several times in a row."""
        for delay_ms in (0, 500, 1_000, 1_500):
            self._loop.call_later(delay_ms, self._commit_late)

    def _commit_late(self) -> None:
        members = [member for member in self._world.members if isinstance(member, ConsumerMember)]
        self._loop.random.shuffle(members)
        member = next((member for member in members if member.commit_late()), None)
        if member is not None:
            look = partial(self._world.administrator.look_at_offsets, member.plan.group_id)
            self._loop.call_later(self._loop.between(40, 200), look)

    def _some_producer(self) -> TransactionalProducer:
        return self._loop.random.choice(self._world.producers)

    # Brokers

    def _some_broker(self) -> Broker:
        return self._loop.random.choice(self._world.cluster.brokers)

    def _some_partition(self) -> PartitionIndex:
        return self._loop.random.choice(list(self._world.disk.replicas))

    def _broker_crashes(self) -> None:
        broker = self._some_broker()
        if broker.process is not None:
            self._world.cluster.crash(broker, self._loop.between(100, 6_000))

    def _broker_stalls(self) -> None:
        broker = self._some_broker()
        self._world.cluster.stall(
            broker, self._loop.between(100, 9_000), partial(self._world.checkers.on_broker_goes_on, broker)
        )

    def _coordinator_moves(self) -> None:
        self._world.cluster.move(self._some_partition())

    # The log

    def _slow_replicas(self) -> None:
        partition = self._some_partition()
        self._world.disk.set_slow(partition, True)
        self._for_a_while(partial(self._world.disk.set_slow, partition, False))

    def _append_errors(self) -> None:
        disk = self._world.disk
        disk.append_error = self._loop.random.choice(_APPEND_ERRORS)
        disk.append_error_rate = self._loop.random.choice((0.3, 1.0))
        self._for_a_while(partial(setattr, disk, "append_error", None), 100, 4_000)

    def _full_disk(self) -> None:
        """Fails all appends until there is room again; all written data can be read."""
        disk = self._world.disk
        disk.append_error, disk.append_error_rate = ErrorCode.KAFKA_STORAGE_ERROR, 1.0
        self._for_a_while(partial(setattr, disk, "append_error", None), 500, 10_000)

    def _failed_sync(self) -> None:
        self._world.cluster.fail_disk(self._some_partition(), self._loop.between(500, 10_000))

    def _slow_reads(self) -> None:
        disk = self._world.disk
        disk.read_ms = self._loop.between(5, 200)
        self._for_a_while(partial(setattr, disk, "read_ms", 0))

    def _compaction(self) -> None:
        partition = self._some_partition()
        # Kafka removes a tombstone `delete.retention.ms` after its first cleaning, so that a reader of the deleted
        # record also sees the tombstone. No coordinator needs that long (a day) to load, so tombstones stay while a
        # coordinator loads.
        is_read = any(is_loading(broker, partition) for broker in self._world.cluster.brokers)
        are_old = self._loop.chance(0.5) and not is_read
        self._world.disk.compact(partition, drops_tombstones=are_old)
        self._world.checkers.check_logs(self._world.disk)

    def _clock_jumps(self) -> None:
        self._some_broker().jump(self._loop.between(-40_000, 40_000))

    # Topics

    def _topics_change(self) -> None:
        topics, loop = self._world.topics, self._loop
        name = loop.random.choice(list(self._plan.topics))
        if name not in topics.image.topics:
            topics.create(name, loop.between(1, 4))
        elif loop.chance(0.6) and len(topics.image.topics[name].partitions) < 8:
            topics.grow(name, loop.between(1, 2))
        else:
            topics.delete(name)
        self._world.cluster.announce()

    # The network

    def _bad_network(self, rate: str, value: float) -> None:
        network = self._world.network
        setattr(network, rate, value)
        self._for_a_while(partial(setattr, network, rate, 0.0), 200, 5_000)

    def _cut_network(self) -> None:
        """Cuts the network between some members and one broker, in one direction or in both."""
        network, broker_id = self._world.network, self._some_broker().broker_id
        directions = self._loop.random.choice(((True,), (False,), (True, False)))
        cut = [
            (member.name, broker_id, to_server)
            for member in self._world.members
            if self._loop.chance(0.5)
            for to_server in directions
        ]
        network.cut.update(cut)
        self._for_a_while(partial(network.cut.difference_update, cut), 500, 15_000)

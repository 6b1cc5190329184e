"""One simulated world: everything that a seed causes, from the first event to the last check.

The world has four phases. First there are faults, of the kinds in the plan. Then all faults end, and every group must
come to rest within a time limit. Then, in the calm, members come and go and topics grow, one to three changes at a
time. No member that is not concerned stops reading. At the end no records are produced any more, and every group must
have read all records.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

from tests.simulation.broker import Broker
from tests.simulation.checkers.checkers import Checkers
from tests.simulation.checkers.reading import Judged
from tests.simulation.cluster import Cluster
from tests.simulation.disk import STATE_PARTITION, Disk
from tests.simulation.faults import Faults
from tests.simulation.loop import EventLoop
from tests.simulation.members.administrator import Administrator
from tests.simulation.members.classic import ClassicMember
from tests.simulation.members.consumer import ConsumerMember
from tests.simulation.members.independent import IndependentReader
from tests.simulation.members.member import Member
from tests.simulation.members.producer import PARTITIONS, TransactionalProducer
from tests.simulation.members.zombie import Zombies
from tests.simulation.network import Network
from tests.simulation.notes import Notes
from tests.simulation.plan import LEDGER_GROUPS, GroupKind, GroupPlan, MemberPlan, Trouble, make_plan
from tests.simulation.rest import RestChecker
from tests.simulation.topics import Topics
from tests.simulation.transactions import ABORT_INTERVAL_MS
from tests.simulation.violation import Violation

from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.group_config import GroupConfig
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import PartitionIndex

__all__ = ["World"]

_PRODUCE_EVERY_MS: Final = 400
_MEASURE_EVERY_MS: Final = 4_000
_LOOK_EVERY_MS: Final = 700
_REST_MS: Final = 120_000
"""The time limit for all groups to come to rest after the last fault: several sessions and rebalances."""
_AFTERMATH_MS: Final = 12_000
_CALM_CHANGES: Final = 3
_LATE_MS: Final = 500
"""The longest latency of a request without faults."""
_MARKERS_MS: Final = 10_000
_MOST_WENT_BACK_MS: Final = 400_000
_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


class World:
    """The world of one seed."""

    def __init__(self, seed: int, *, listener: Callable[[str], None] | None = None, sums: bool = False) -> None:
        self.seed = seed
        self.loop = loop = EventLoop(seed)
        self.notes = Notes(loop, listener, sums=sums)
        self.plan = plan = make_plan(loop)
        self.network = Network(loop, encodes=plan.encodes)
        racks = {index: "abc"[index] if plan.has_racks else None for index in range(plan.broker_count)}
        self.topics = Topics(loop, racks)
        for name, partitions in plan.topics.items():
            self.topics.create(name, partitions)
        self.settings = GroupConfig(
            session_timeout_ms=6_000,
            heartbeat_interval_ms=1_000,
            assignment_interval_ms=plan.assignment_interval_ms,
            load={"min.dwell.ms": 5_000, "lag.drain.ms": 5_000, "partition.cost": 0.1},
        )
        self.checkers = Checkers(
            self,
            self.topics,
            partitions=plan.partition_count,
            retention_ms=plan.offsets_retention_ms,
            initial_delay_ms=plan.initial_rebalance_delay_ms,
        )
        self.disk = Disk(
            loop,
            self.checkers,
            partitions=(
                *map(PartitionIndex, range(plan.partition_count)),
                *([STATE_PARTITION] if plan.producers else ()),
            ),
            replication_ms=plan.replication_ms,
            max_batch_bytes=plan.max_batch_bytes,
        )
        config = GroupCoordinatorConfig(
            initial_rebalance_delay_ms=plan.initial_rebalance_delay_ms,
            offsets_retention_ms=plan.offsets_retention_ms,
            offsets_retention_check_interval_ms=5_000,
            rebalance_batch_ms=plan.rebalance_batch_ms,
            offset_commit_linger_ms=plan.commit_linger_ms,
            looks_per_step=plan.looks_per_step,
        )
        producer_ids = count(1_000)
        brokers = [
            Broker(
                loop,
                index,
                disk=self.disk,
                network=self.network,
                partition_count=plan.partition_count,
                leader_of=self._leader_of,
                next_producer_id=partial(next, producer_ids) if plan.producers else None,
                config=config,
                settings=self.settings,
                checkers=self.checkers,
            )
            for index in range(plan.broker_count)
        ]
        self.cluster = Cluster(loop, brokers, self.disk, self.topics)
        self._groups = {group.group_id: group for group in plan.groups}
        self.members = [self._member(member) for group in plan.groups for member in group.members]
        self.producers = [TransactionalProducer(self, producer) for producer in plan.producers]
        self.zombies = Zombies(self)
        self.administrator = Administrator(self)
        self.faults = Faults(self)
        self._produces = True
        self._is_healed = False
        self._births = 0
        self._changed: set[str] = set()
        """Member plans that have already taken part in the current change, so that no member changes twice."""
        loop.after_step = self.checkers.after_step

    def run(self) -> None:
        """Runs the world. Raises Violation."""
        loop, plan = self.loop, self.plan
        self.cluster.start()
        for member in self.members:
            loop.call_later(loop.between(0, 4_000), partial(self.start_member, member))
        if plan.has_independent_reader:
            IndependentReader(self, "independent").start()
        for producer in self.producers:
            loop.call_later(loop.between(0, 4_000), producer.start)
        if self.producers:
            self._look_at_ledgers()
        self._produce()
        self._measure()
        self.faults.begin()
        loop.run_until(plan.trouble_ends_ms)
        self._heal()
        # Missing members must time out first, and clients must give up on all lost requests.
        loop.run_until(loop.now_ms + _AFTERMATH_MS)
        self._come_to_rest("the trouble was over")
        if self.producers:
            self._end_transactions()
        for _ in range(_CALM_CHANGES):
            self._change_in_the_calm()
        self._produces = False
        self._come_to_rest("the last record was produced", is_all_read=True)
        self.checkers.check_logs(self.disk)

    # Regular events

    def _produce(self) -> None:
        if self._produces:
            self.topics.produce()
            self.loop.call_later(_PRODUCE_EVERY_MS, self._produce)

    def _measure(self) -> None:
        traffic = self.topics.traffic(_MEASURE_EVERY_MS)
        for broker in self.cluster.brokers:
            if broker.process is not None:
                measure = partial(broker.measure, traffic)
                self.loop.call_at(self.loop.now_ms, measure, broker.process, is_message=True)
        self.loop.call_later(_MEASURE_EVERY_MS, self._measure)

    def _look_at_ledgers(self) -> None:
        self.administrator.look_at_ledgers()
        self.loop.call_later(_LOOK_EVERY_MS, self._look_at_ledgers)

    def _member(self, plan: MemberPlan, name: str | None = None, *, is_classic: bool = True) -> Member:
        group = self._groups[plan.group_id]
        if group.kind is GroupKind.CONSUMER or not is_classic:
            return ConsumerMember(self, plan, name)
        return ClassicMember(self, plan, group.classic_kind, name)

    def migrate(self, member: Member) -> None:
        """Stops a member, and starts it again with the other protocol."""
        if not member.is_running or self._groups[member.plan.group_id].kind is not GroupKind.MIXED:
            return
        member.shut_down()
        self._births += 1
        successor = self._member(
            member.plan, f"{member.plan.name}.{self._births}", is_classic=isinstance(member, ConsumerMember)
        )
        successor.topics = member.topics
        self.members[self.members.index(member)] = successor
        self.loop.call_later(self.loop.between(50, 3_000), partial(self.start_member, successor))

    def start_member(self, member: Member) -> None:
        """Starts a member as a supervisor does, if the member is not running. After the faults, it is not started if
        its twin runs.
        """
        if not member.is_running and not (self._is_healed and self._runs_already(member)):
            member.start()

    def _runs_already(self, member: Member) -> bool:
        instance = (member.plan.group_id, member.plan.instance_id)
        return member.plan.instance_id is not None and any(
            each.is_running and (each.plan.group_id, each.plan.instance_id) == instance for each in self.members
        )

    def start_twin(self, member: Member) -> None:
        """Starts another process with a static member's plan."""
        self._births += 1
        name = f"{member.plan.name}.twin-{self._births}"
        twin = self._member(member.plan, name, is_classic=isinstance(member, ClassicMember))
        twin.topics = member.topics
        self.members.append(twin)
        twin.start()

    # The phases

    def _heal(self) -> None:
        self.note("healed")
        self.faults.heal()
        self._is_healed = True
        seen = set()
        for member in self.members:
            member.recover()
            # One of a member and its twins is enough; several would fence each other.
            key = (member.plan.group_id, member.plan.instance_id or member.name)
            if key in seen and member.is_running:
                member.crash()
            elif key not in seen:
                seen.add(key)
                if member.is_running and member.is_fenced:
                    member.crash()
                self.start_member(member)

    def _come_to_rest(self, since: str, *, is_all_read: bool = False) -> None:
        loop = self.loop
        checker = RestChecker(self)
        began_ms = loop.now_ms
        what = checker.missing(is_all_read=is_all_read)
        while what is not None:
            if loop.now_ms - began_ms > _REST_MS:
                raise Violation(26, f"{_REST_MS} ms after {since}: {what}")
            loop.run_until(loop.now_ms + 500)
            what = checker.missing(is_all_read=is_all_read)

    def _leader_of(self, partition: PartitionIndex) -> Broker | None:
        return self.cluster.leader_of(partition)

    def _end_transactions(self) -> None:
        """I14: ends all producers, some during a transaction, and checks that no transaction stays pending."""
        loop, checker, stores = self.loop, self.checkers.transactions, self.checkers.shadow.stores
        for producer in self.producers:
            producer.end()
        # The wall clock decides, and it may have gone back since the transaction began.
        went_back_ms = _MOST_WENT_BACK_MS if Trouble.CLOCK_JUMPS in self.plan.troubles else 0
        most_ms = max(plan.timeout_ms for plan in self.plan.producers) + ABORT_INTERVAL_MS + _MARKERS_MS + went_back_ms
        began_ms = loop.now_ms
        loop.run_until(began_ms + _LATE_MS)
        what = checker.unfinished(stores.values())
        while what is not None:
            if loop.now_ms - began_ms > most_ms:
                raise Violation(14, f"{most_ms} ms after the last producer ended: {what}")
            loop.run_until(loop.now_ms + 500)
            what = checker.unfinished(stores.values())
        checker.check_ledgers(stores.values(), LEDGER_GROUPS, PARTITIONS)

    def _change_in_the_calm(self) -> None:
        """Makes one change, or several changes within one rebalance."""
        loop, reading = self.loop, self.checkers.reading
        changes = [self._someone_leaves, self._someone_comes, self._someone_migrates, self._topic_grows]
        reading.begin_change()
        done: list[str] = []
        self._changed.clear()
        for _ in range(loop.random.choice((1, 1, 2, 3))):
            if done:
                loop.run_until(loop.now_ms + loop.between(0, 800))
            done.append(loop.random.choice(changes)())
        change = ", ".join(done)
        self.note("in the calm %s", change)
        loop.run_until(loop.now_ms + 3_000)
        self._come_to_rest(change)
        reading.end_change(change, {group_id: _judged(group) for group_id, group in self._groups.items()})

    def _someone_leaves(self) -> str:
        running = [member for member in self.members if member.is_running]
        others = [member for member in running if member.plan.name not in self._changed]
        if len(running) < 2 or not others:
            return "nothing changed"
        member = self.loop.random.choice(others)
        self._changed.add(member.plan.name)
        member.shut_down()
        return f"{member.name} left"

    def _someone_comes(self) -> str:
        down = [
            member
            for member in self.members
            if not member.is_running and member.name == member.plan.name and member.name not in self._changed
        ]
        if not down:
            return "nothing changed"
        member = self.loop.random.choice(down)
        self._changed.add(member.name)
        self.start_member(member)
        return f"{member.name} came"

    def _someone_migrates(self) -> str:
        mixed = [
            member
            for member in self.members
            if member.is_running
            and self._groups[member.plan.group_id].kind is GroupKind.MIXED
            and member.plan.name not in self._changed
        ]
        if not mixed:
            return "nothing changed"
        member = self.loop.random.choice(mixed)
        self._changed.add(member.plan.name)
        self.migrate(member)
        return f"{member.name} migrated"

    def _topic_grows(self) -> str:
        names = list(self.topics.image.topics)
        if not names:
            return "nothing changed"
        name = self.loop.random.choice(names)
        self.topics.grow(name, 1)
        self.cluster.announce()
        return f"{name} grew"

    # Notes and errors

    def note(self, template: str, *values: object) -> None:
        """Adds a note for the reader of a failure."""
        self.notes.add(template, *values)

    def expect_retriable(self, what: str, code: ErrorCode) -> None:
        """Checks that a client can handle the error that it got."""
        if code not in _RETRIABLE:
            self.checkers.fail(Violation(0, f"{what}: a client can do nothing with {code.name}"))

    def expect_known(self, what: str, code: ErrorCode) -> None:
        """Checks that a request was not refused because of an internal error."""
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self.checkers.fail(Violation(0, f"{what}: {code.name}"))


def _judged(group: GroupPlan) -> Judged:
    """Returns which stops count in a group. Eager members always stop. A group that goes back to the classic protocol
    during a rebalance has a generation that some of its members do not know. These members join again, here as in
    Apache Kafka.
    """
    return Judged.NOT if group.kind in (GroupKind.EAGER, GroupKind.MIXED) else Judged.WHAT_IS_LOST

"""A property test of a group with members of both protocols: invariants 15 to 17, and 26.

For a failing run hypothesis prints the seed and the steps that lead to the failure.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.examples import examples
from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver, slow
from tests.unit.core.group.consumer.consumers import Consumer, ConsumerState
from tests.unit.core.group.consumer.migration.classic_consumers import SESSION_MS, ClassicConsumer, ClassicState
from tests.unit.core.group.painted_topics import PaintedTopics, topic_id

from klamm.core.group.classic.classic_store import ClassicStore
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.timers import join_timer
from klamm.core.group.consumer.consumer_store import ConsumerStore
from klamm.core.group.consumer.group_state import ConsumerGroupState
from klamm.core.group.consumer.timers import session_timer
from klamm.core.group.group_kinds import empty_store
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import Offset

APPEND_ERRORS = [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT]
ALIVE = (ConsumerState.IN, ClassicState.IN)
CRASHED = (ConsumerState.CRASHED, ClassicState.CRASHED)
REFUSALS = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


class MigrationMachine(RuleBasedStateMachine):
    """One group with two classic consumers, one new consumer, and one consumer that changes its protocol."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 1
        self.partitions = 6
        self.driver = ConsumerDriver(settings=slow(), topics=PaintedTopics(events=6))
        self.new = Consumer("new")
        self.either_new = Consumer("either", instance="pod", revocation_steps=2)
        self.either_new.crash()
        self.either_classic = ClassicConsumer("either", instance="pod")
        self.consumers: list[Consumer | ClassicConsumer] = [
            self.new,
            ClassicConsumer("old-1"),
            ClassicConsumer("old-2"),
            self.either_classic,
            self.either_new,
        ]
        self.new.crash()

    some_consumer = st.integers(0, 4)

    @initialize(seconds=st.sampled_from([0, 12]), absent=st.sets(some_consumer, max_size=4))
    def group_is_new_or_settled(self, seconds: int, absent: set[int]) -> None:
        self.consumers_run(seconds, absent)

    @rule(index=some_consumer, steps=st.integers(1, 3))
    def consumer_goes_on(self, index: int, steps: int) -> None:
        for _ in range(steps):
            self.consumers[index].go_on(self.driver)

    @rule(seconds=st.sampled_from([1, 3, 8, 20]), absent=st.sets(some_consumer, max_size=3))
    def consumers_run(self, seconds: int, absent: set[int]) -> None:
        for _ in range(seconds):
            for index, consumer in enumerate(self.consumers):
                if index not in absent:
                    consumer.go_on(self.driver)
            self.driver.advance(1000)
            self.driver.run_tasks()

    @rule(index=some_consumer)
    def consumer_leaves(self, index: int) -> None:
        self.consumers[index].leave(self.driver)

    @rule(index=some_consumer)
    def consumer_crashes(self, index: int) -> None:
        self.consumers[index].crash()

    @rule(index=st.integers(0, 2))
    def consumer_restarts(self, index: int) -> None:
        self.consumers[index].restart()

    @rule(to_new=st.booleans())
    def static_consumer_changes_sides(self, to_new: bool) -> None:
        """Restarts the static consumer, with the other protocol or with the same."""
        self.either_new.leave(self.driver, for_a_while=True)
        self.either_classic.crash()
        if to_new:
            self.either_new.restart()
        else:
            self.either_classic.restart()

    @rule(index=some_consumer)
    def zombie_commits(self, index: int) -> None:
        """A commit with a former member id and epoch is refused, if no current member has this id and epoch (I16)."""
        group = self.driver.shard.consumer_groups.store.groups.get(GROUP)
        classic = self.driver.shard.classic_groups.find(GROUP)
        for member_id, epoch in self.consumers[index].former:
            if epoch < 0:
                continue
            if group is not None:
                member = group.members.get(member_id)
                if member is not None and member.member_epoch >= epoch:
                    continue
            if classic is not None and member_id in classic.members and classic.generation == epoch:
                continue
            code = self.driver.commit(1, member_id=member_id, generation=epoch, topic_id=topic_id(EVENTS))
            assert code in (*REFUSALS, None), code

    @rule(milliseconds=st.sampled_from([1, 1000, 30_000, SESSION_MS]))
    def time_passes(self, milliseconds: int) -> None:
        self.driver.advance(milliseconds)

    @rule()
    def topic_grows(self) -> None:
        self.partitions = min(self.partitions + 1, 9)
        self.version += 1
        self.driver.paint(PaintedTopics(self.version, events=self.partitions))

    @rule(code=st.sampled_from([None, None, *APPEND_ERRORS]))
    def log_fails_or_recovers(self, code: ErrorCode | None) -> None:
        self.driver.append_error = code

    @precondition(lambda self: not self.driver.hold_commits)
    @rule()
    def replicas_fall_behind(self) -> None:
        self.driver.hold_commits = True

    @precondition(lambda self: self.driver.hold_commits)
    @rule(in_time=st.booleans())
    def replicas_catch_up(self, in_time: bool) -> None:
        if in_time:
            self.driver.commit_held()
        else:
            self.driver.fail_held(ErrorCode.REQUEST_TIMED_OUT)

    @rule()
    def coordinator_restarts(self) -> None:
        for consumer in self.consumers:
            if isinstance(consumer, ClassicConsumer):
                consumer.listen(self.driver)
                consumer.lose_connection()
        self.driver = self.driver.reload()

    # Invariants

    @invariant()
    def durable_state_is_a_replay_of_the_log(self) -> None:
        """The state of the shard equals a replay of the log (I17)."""
        store = empty_store()
        for offset, written in enumerate(self.driver.log):
            store.replay(Offset(offset), written.producer_id, written.record)
        assert store == self.driver.shard.store
        assert not store.of(ClassicStore).groups.keys() & store.of(ConsumerStore).groups.keys()

    @invariant()
    def partition_has_one_owner(self) -> None:
        """Each partition has at most one owner, for the coordinator and for the clients with a current epoch (I15)."""
        group = self.driver.shard.consumer_groups.store.groups.get(GROUP)
        classic = self.driver.shard.classic_groups.find(GROUP)
        epochs: dict[str, int] = {}
        if group is not None:
            owners = Counter(
                (topic, partition)
                for member in group.members.values()
                for assigned in (member.assigned, member.pending_revocation)
                for topic, partitions in assigned.items()
                for partition in partitions
            )
            assert all(count == 1 for count in owners.values()), owners
            epochs = {member.member_id: member.member_epoch for member in group.members.values()}
        elif classic is not None:
            epochs = dict.fromkeys(classic.members, classic.generation)
        believed = Counter(
            partition
            for consumer in self.consumers
            if consumer.state in ALIVE and epochs.get(consumer.member_id) == consumer.epoch
            for partition in consumer.has
        )
        assert all(count == 1 for count in believed.values()), believed

    @invariant()
    def every_member_is_watched(self) -> None:
        """Every member of either protocol has a session timer, in a group of either type."""
        group = self.driver.shard.consumer_groups.store.groups.get(GROUP)
        if group is not None:
            for member_id in group.members:
                assert session_timer(GROUP, member_id) in self.driver.timers, member_id
            return
        classic = self.driver.shard.classic_groups.find(GROUP)
        if classic is not None:
            for member in classic.members.values():
                assert member.session_timer in self.driver.timers or member.is_alive_while_waiting, member.member_id
            if classic.state is GroupState.PREPARING_REBALANCE:
                assert join_timer(GROUP) in self.driver.timers

    def teardown(self) -> None:
        """Once failures end, the group becomes stable and has all living consumers as members (I26)."""
        self.driver.append_error = None
        self.driver.commit_held()
        for _ in range((2 * SESSION_MS + 90_000) // 1000):
            for consumer in self.consumers:
                consumer.go_on(self.driver)
            self.driver.advance(1000)
            self.driver.run_tasks()
        alive = [consumer for consumer in self.consumers if consumer.state not in CRASHED]
        assert all(consumer.state in ALIVE for consumer in alive), alive
        group = self.driver.shard.consumer_groups.store.groups.get(GROUP)
        classic = self.driver.shard.classic_groups.find(GROUP)
        if any(isinstance(consumer, Consumer) for consumer in alive):
            assert group is not None
            assert group.members.keys() == {consumer.member_id for consumer in alive}
            assert group.state is ConsumerGroupState.STABLE
        elif alive:
            assert classic is not None
            assert classic.members.keys() == {consumer.member_id for consumer in alive}
            assert classic.state is GroupState.STABLE
        if alive:
            owned = sorted(partition for consumer in alive for _, partition in consumer.has)
            assert owned == list(range(self.partitions if group is not None else len(owned))), (alive, group, classic)
            assert owned
        self.durable_state_is_a_replay_of_the_log()


TestMigration = MigrationMachine.TestCase
TestMigration.settings = settings(
    max_examples=examples(200), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)

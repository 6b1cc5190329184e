"""A property test of a consumer group under random members, topics, time, failures and restarts: invariants 15 to 17,
19 in part, and 26.

For a failing run hypothesis prints the seed and the steps that lead to the failure.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.examples import examples
from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver, name_of, slow
from tests.unit.core.group.consumer.consumers import Consumer, ConsumerState
from tests.unit.core.group.log_replica import LogReplica
from tests.unit.core.group.painted_topics import PaintedTopics, topic_id

from klamm.core.group.consumer.group_state import ConsumerGroupState, MemberState
from klamm.core.group.consumer.timers import rebalance_timer, session_timer
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import PartitionIndex, TopicId

APPEND_ERRORS = [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT]
SESSION_MS = 45_000
SUBSCRIPTIONS: list[tuple[list[str] | None, str | None]] = [
    ([EVENTS], ""),
    ([EVENTS, "audit"], ""),
    (["audit"], ""),
    ([], ""),
    ([], "e.*"),
    ([], ".*it|events"),
]


class ConsumerGroupMachine(RuleBasedStateMachine):
    """One group, five consumers (dynamic, slow to revoke, static), and the steps that change them."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 1
        self.sizes = {EVENTS: 6, "audit": 2}
        self.incarnations = {"audit": 0}
        self.driver = ConsumerDriver(settings=slow(), topics=PaintedTopics(events=6, audit=2))
        self.consumers = [
            Consumer("quick"),
            Consumer("slow", revocation_steps=3),
            Consumer("stuck", revocation_steps=1000),
            Consumer("static-1", instance="pod-1"),
            Consumer("static-2", instance="pod-2", revocation_steps=2),
        ]
        self.next_offset = 0
        self.replica = LogReplica()
        self.acknowledged: dict[tuple[str, int], int] = {}

    some_consumer = st.integers(0, 4)

    @initialize(seconds=st.sampled_from([0, 3, 8]), absent=st.sets(some_consumer, max_size=4))
    def group_is_new_or_settled(self, seconds: int, absent: set[int]) -> None:
        self.consumers_run(seconds, absent)

    # Members

    @rule(index=some_consumer, steps=st.integers(1, 4))
    def consumer_goes_on(self, index: int, steps: int) -> None:
        for _ in range(steps):
            self.consumers[index].go_on(self.driver)

    @rule(seconds=st.sampled_from([1, 3, 6, 20]), absent=st.sets(some_consumer, max_size=3))
    def consumers_run(self, seconds: int, absent: set[int]) -> None:
        """Runs the consumers second by second; the absent consumers do nothing meanwhile."""
        for _ in range(seconds):
            for index, consumer in enumerate(self.consumers):
                if index not in absent:
                    consumer.go_on(self.driver)
            self.driver.advance(1000)
            self.driver.run_tasks()

    @rule(index=some_consumer, for_a_while=st.booleans())
    def consumer_leaves(self, index: int, for_a_while: bool) -> None:
        self.consumers[index].leave(self.driver, for_a_while=for_a_while)

    @rule(index=some_consumer)
    def consumer_crashes(self, index: int) -> None:
        self.consumers[index].crash()

    @rule(index=some_consumer)
    def consumer_restarts(self, index: int) -> None:
        self.consumers[index].restart()

    @rule(index=some_consumer, subscription=st.sampled_from(SUBSCRIPTIONS))
    def consumer_changes_its_subscription(self, index: int, subscription: tuple[list[str] | None, str | None]) -> None:
        consumer = self.consumers[index]
        consumer.names, consumer.regex = subscription
        consumer.full = True

    @rule(index=some_consumer)
    def consumer_sends_everything(self, index: int) -> None:
        self.consumers[index].full = True

    # Offsets

    @rule(index=some_consumer)
    def consumer_commits(self, index: int) -> None:
        consumer = self.consumers[index]
        for of_topic, partition in sorted(consumer.has):
            self.next_offset += 1
            code = consumer.commit(self.driver, of_topic, partition, self.next_offset)
            if code is ErrorCode.NONE and self.driver.topics.by_id(TopicId(of_topic)) is not None:
                self.acknowledged[name_of(of_topic), partition] = self.next_offset

    @rule(index=some_consumer)
    def zombie_commits(self, index: int) -> None:
        """A commit with a former epoch succeeds only for partitions that the member has had since that epoch (I16)."""
        members = self.driver.shard.consumer_groups.store.groups[GROUP].members if self.exists else {}
        for member_id, epoch in self.consumers[index].former:
            for partition in range(6):
                member = members.get(member_id)
                since = None
                if member is not None:
                    since = member.assignment_epoch(topic_id(EVENTS), PartitionIndex(partition))
                code = self.driver.commit(
                    -1,
                    member_id=member_id,
                    generation=epoch,
                    partition=partition,
                    topic_id=topic_id(EVENTS),
                )
                may = member is not None and (
                    epoch == member.member_epoch or (since is not None and since <= epoch < member.member_epoch)
                )
                if code is ErrorCode.NONE:
                    assert may, (member_id, epoch, partition)
                if code in (None, ErrorCode.NONE, *APPEND_ERRORS):
                    self.acknowledged.pop((EVENTS, partition), None)

    # Time, topics, log and restarts

    @rule(milliseconds=st.sampled_from([1, 500, 1000, 30_000, SESSION_MS]))
    def time_passes(self, milliseconds: int) -> None:
        """Advances the clock without any request."""
        self.driver.advance(milliseconds)

    @rule()
    def tasks_end(self) -> None:
        self.driver.run_tasks()

    @rule()
    def topic_grows(self) -> None:
        self.sizes[EVENTS] = min(self.sizes[EVENTS] + 2, 12)
        self.paint()

    @rule()
    def topic_goes_or_comes(self) -> None:
        if self.sizes.pop("audit", None) is None:
            self.sizes["audit"] = 2
            self.incarnations["audit"] += 1
        for topic, partition in list(self.acknowledged):
            if topic == "audit":
                del self.acknowledged[topic, partition]
        self.paint()

    def paint(self) -> None:
        self.version += 1
        self.driver.paint(PaintedTopics(self.version, incarnations=self.incarnations, **self.sizes))

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
        self.driver = self.driver.reload()

    # Invariants

    @invariant()
    def heartbeat_that_stands_is_decided_as_before(self) -> None:
        """A reusable answer equals the answer that the shard would give now."""
        self.driver.check_what_stands()

    @property
    def exists(self) -> bool:
        return GROUP in self.driver.shard.consumer_groups.store.groups

    @invariant()
    def durable_state_is_a_replay_of_the_log(self) -> None:
        """The state of the shard equals a replay of the log (I17)."""
        assert self.replica.follow(self.driver.log) == self.driver.shard.store

    @invariant()
    def acknowledged_commits_stay(self) -> None:
        """An acknowledged offset is never lost (I17)."""
        for (topic, partition), offset in self.acknowledged.items():
            committed = self.driver.shard.store.offset(GROUP, topic, PartitionIndex(partition))
            assert committed is not None
            assert committed.offset >= offset

    @invariant()
    def partition_has_one_owner(self) -> None:
        """Each partition has at most one owner, for the coordinator and for the members with a current epoch (I15)."""
        if not self.exists:
            return
        group = self.driver.consumer_group()
        owners = Counter(
            (topic, partition)
            for member in group.members.values()
            for assigned in (member.assigned, member.pending_revocation)
            for topic, partitions in assigned.items()
            for partition in partitions
        )
        assert all(count == 1 for count in owners.values()), owners
        counted = {(topic, partition) for topic, partitions in group.owners.items() for partition in partitions}
        assert counted == owners.keys()
        believed = Counter(
            partition
            for consumer in self.consumers
            if consumer.state is ConsumerState.IN
            and consumer.member_id in group.members
            and consumer.epoch == group.members[consumer.member_id].member_epoch
            for partition in consumer.has
        )
        assert all(count == 1 for count in believed.values()), believed

    @invariant()
    def books_are_kept(self) -> None:
        """Every counter and index of the group equals a fresh count."""
        if not self.exists:
            return
        group = self.driver.consumer_group()
        members = group.members.values()
        assert group.unreconciled == sum(not member.is_reconciled_to(group.target_epoch) for member in members)
        assert group.name_counts == Counter(name for member in members for name in member.subscribed_topic_names)
        assert group.regex_counts == Counter(
            member.subscribed_topic_regex for member in members if member.subscribed_topic_regex
        )
        assert group.regexes.keys() <= group.regex_counts.keys()
        assert group.regex_topic_counts == Counter(
            name for resolved in group.regexes.values() for name in resolved.topics
        )
        assert group.static_members == {
            member.instance_id: member.member_id for member in members if member.instance_id is not None
        }
        index = self.driver.shard.consumer_groups.store.index
        assert {name for name, groups in index._groups.items() if GROUP in groups} == group.subscribed_topics()
        assert (GROUP in index.regex_groups) == bool(group.regex_counts)
        assert group.target.keys() <= group.members.keys()

    @invariant()
    def every_member_is_watched(self) -> None:
        """Every member has a session timer, and a member that has to revoke partitions has a rebalance timer."""
        if not self.exists:
            return
        for member in self.driver.consumer_group().members.values():
            assert session_timer(GROUP, member.member_id) in self.driver.timers, member
            if member.state is MemberState.UNREVOKED_PARTITIONS and member.member_epoch >= 0:
                assert rebalance_timer(GROUP, member.member_id) in self.driver.timers, member

    def teardown(self) -> None:
        """Once failures end, the group becomes stable and has all living consumers as members (I26)."""
        self.driver.append_error = None
        self.driver.commit_held()
        self.consumers[2].revocation_steps = 1
        for _ in range((2 * SESSION_MS + 60_000) // 1000):
            for consumer in self.consumers:
                consumer.go_on(self.driver)
            self.driver.advance(1000)
            self.driver.run_tasks()
        alive = [consumer for consumer in self.consumers if consumer.state is ConsumerState.IN]
        assert not [consumer for consumer in self.consumers if consumer.state is ConsumerState.OUT]
        if not self.exists:
            assert not alive
            return
        group = self.driver.consumer_group()
        assert {consumer.member_id for consumer in alive} == group.members.keys()
        assert group.state is (ConsumerGroupState.STABLE if alive else ConsumerGroupState.EMPTY)
        read: set[str] = set()
        for consumer in alive:
            member = group.members[consumer.member_id]
            assert consumer.epoch == group.epoch
            names = self.driver.shard.consumer_groups.subscribed_names(group, member)
            read |= names & self.sizes.keys()
            assert {name_of(of_topic) for of_topic, _ in consumer.has} <= names
        owned = sorted((name_of(of_topic), index) for consumer in alive for of_topic, index in consumer.has)
        assert owned == sorted((name, index) for name in read for index in range(self.sizes[name]))
        self.replica = LogReplica()
        self.durable_state_is_a_replay_of_the_log()


TestConsumerGroup = pytest.mark.timeout(300)(ConsumerGroupMachine.TestCase)
TestConsumerGroup.settings = settings(
    max_examples=examples(250), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)

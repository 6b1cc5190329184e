"""A property test of a classic group under random clients, time, failures and restarts: invariants 15 to 17, and the
stable end state.

For a failing run hypothesis prints the seed and the steps that lead to the failure.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.support.examples import examples
from tests.unit.core.group.clients import PARTITIONS, REBALANCE_MS, SESSION_MS, STATIC_SESSION_MS, Client, ClientState
from tests.unit.core.group.log_replica import LogReplica
from tests.unit.core.group.shard_driver import GROUP, ShardDriver, subscription

from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.timers import join_timer, sync_timer
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import PartitionIndex

APPEND_ERRORS = [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT]
REFUSALS = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


class GroupMachine(RuleBasedStateMachine):
    """One group, six clients (dynamic, of an old version, static), and the steps that change them."""

    config = GroupCoordinatorConfig()

    def __init__(self) -> None:
        super().__init__()
        self.driver = ShardDriver(self.config)
        self.clients = [
            Client("new-1"),
            Client("new-2"),
            Client("old-1", version=3),
            Client("old-2", version=0),
            Client("static-1", instance="pod-1"),
            Client("static-2", instance="pod-2", version=8),
        ]
        self.next_offset = 0
        self.replica = LogReplica()
        self.acknowledged: dict[int, int] = {}

    some_client = st.integers(0, 5)

    @initialize(seconds=st.sampled_from([0, 9]), absent=st.sets(some_client, max_size=4))
    def group_is_new_or_stable(self, seconds: int, absent: set[int]) -> None:
        self.clients_run(seconds, absent)

    # Clients

    @rule(index=some_client, steps=st.integers(1, 3))
    def client_goes_on(self, index: int, steps: int) -> None:
        for _ in range(steps):
            self.clients[index].go_on(self.driver)

    @rule(seconds=st.sampled_from([1, 4, 12, 12, 40]), absent=st.sets(some_client, max_size=3))
    def clients_run(self, seconds: int, absent: set[int]) -> None:
        """Runs the clients second by second; the absent clients do nothing meanwhile."""
        for _ in range(seconds):
            for index, client in enumerate(self.clients):
                if index not in absent:
                    client.go_on(self.driver)
            self.driver.advance(1000)

    @rule(index=some_client)
    def client_leaves(self, index: int) -> None:
        self.clients[index].leave(self.driver)

    @rule(index=some_client)
    def client_crashes(self, index: int) -> None:
        self.clients[index].crash()

    @rule(index=some_client)
    def client_restarts(self, index: int) -> None:
        client = self.clients[index]
        if client.state is not ClientState.CRASHED:
            client.crash()
        client.restart()

    @rule(index=some_client)
    def client_loses_its_connection(self, index: int) -> None:
        self.clients[index].lose_connection()

    @rule(index=some_client, topics=st.sampled_from([("events",), ("events", "audit")]))
    def client_changes_its_subscription(self, index: int, topics: tuple[str, ...]) -> None:
        client = self.clients[index]
        client.metadata = subscription(*topics)
        if client.state is ClientState.STABLE:
            client.join(self.driver)

    @rule(instance=st.sampled_from(["pod-1", "pod-2"]))
    def administrator_removes_a_static_member(self, instance: str) -> None:
        self.driver.leave(("", instance))

    # Offsets

    @rule(index=some_client)
    def client_commits(self, index: int) -> None:
        client = self.clients[index]
        for partition in sorted(client.owned):
            self.next_offset += 1
            code = client.commit(self.driver, partition, self.next_offset)
            if code is ErrorCode.NONE:
                self.acknowledged[partition] = self.next_offset

    @rule(index=some_client)
    def zombie_commits(self, index: int) -> None:
        """A commit with a former member id and generation is refused, unless both are current (I16)."""
        group = self.driver.shard.classic_groups.find(GROUP)
        for member_id, generation in self.clients[index].former:
            is_current = group is not None and member_id in group.members and group.generation == generation
            if is_current or generation < 0:
                continue
            code = self.driver.commit(-1, member_id=member_id, generation=generation)
            assert code in REFUSALS, code

    # Time, log and restarts

    @rule(milliseconds=st.sampled_from([1, 3000, SESSION_MS - 1, SESSION_MS, REBALANCE_MS]))
    def time_passes(self, milliseconds: int) -> None:
        """Advances the clock without any request."""
        self.driver.advance(milliseconds)

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
        for client in self.clients:
            client.listen(self.driver)
            client.lose_connection()
        self.driver = self.driver.reload()

    # Invariants

    @invariant()
    def heartbeat_that_stands_is_decided_as_before(self) -> None:
        """A reusable answer equals the answer that the shard would give now."""
        self.driver.check_what_stands()

    @invariant()
    def durable_state_is_a_replay_of_the_log(self) -> None:
        """The state of the shard equals a replay of the log (I17)."""
        assert self.replica.follow(self.driver.log) == self.driver.shard.store

    @invariant()
    def fetched_offset_is_the_last_one_written(self) -> None:
        """The fetched offset is the last one in the log, and not before an acknowledged one (I17)."""
        written: dict[int, int] = {}
        for _, record in self.driver.log:
            if isinstance(record.key, OffsetCommitKey) and isinstance(record.value, OffsetCommitValue):
                written[record.key.partition] = record.value.offset
        for partition in range(PARTITIONS):
            offset = self.driver.shard.store.offset(GROUP, "events", PartitionIndex(partition))
            fetched = -1 if offset is None else offset.offset
            assert fetched == written.get(partition, -1)
            assert fetched >= self.acknowledged.get(partition, -1)

    @invariant()
    def partition_has_one_owner(self) -> None:
        """Each partition has at most one owner among the members whose commits are accepted (I15)."""
        group = self.driver.shard.classic_groups.find(GROUP)
        if group is None:
            return
        assigned = Counter(partition for member in group.members.values() for partition in member.assignment)
        assert all(count == 1 for count in assigned.values()), assigned
        owners = Counter(
            partition
            for client in self.clients
            if client.member_id in group.members and client.generation == group.generation
            for partition in client.owned
        )
        assert all(count == 1 for count in owners.values()), owners

    @invariant()
    def books_of_the_round_are_kept(self) -> None:
        """The counters of the group equal fresh counts, and the group knows every parked request."""
        group = self.driver.shard.classic_groups.find(GROUP)
        if group is None:
            return
        members = group.members
        assert group.awaiting_join == sum(member.join_ticket is not None for member in members.values())
        assert not group.pending_join & members.keys()
        assert group.pending_sync <= members.keys()
        assert group.leader_id in members if members else group.leader_id is None
        assert (group.state is GroupState.EMPTY) <= (not members)
        assert group.static_members == {
            member.group_instance_id: member.member_id for member in members.values() if member.is_static
        }
        counts = Counter(name for member in members.values() for name in member.protocol_names())
        assert {name: count for name, count in group.protocol_counts.items() if count} == counts
        tickets = [(member.join_ticket, member.sync_ticket) for member in members.values()]
        waiting = {ticket for pair in tickets for ticket in pair if ticket is not None}
        assert not any(isinstance(self.driver.answers.get(ticket), Message) for ticket in waiting)
        held = {ticket for _, ticket in self.driver._held} | {
            ticket for result, _ in self.driver._held for ticket, _ in result.replies
        }
        assert self.driver.parked <= waiting | held

    @invariant()
    def every_member_is_watched(self) -> None:
        """Every member has a session timer or a parked request, and every rebalance phase has a timer."""
        group = self.driver.shard.classic_groups.find(GROUP)
        if group is None:
            return
        for member in group.members.values():
            assert member.session_timer in self.driver.timers or member.is_alive_while_waiting, member.member_id
        if group.state is GroupState.PREPARING_REBALANCE:
            assert join_timer(GROUP) in self.driver.timers
        if group.state is GroupState.COMPLETING_REBALANCE and group.pending_sync:
            assert sync_timer(GROUP) in self.driver.timers

    def teardown(self) -> None:
        """Once failures end, the group becomes stable, with all living clients in one generation (I26)."""
        self.driver.append_error = None
        self.driver.commit_held()
        for _ in range((2 * STATIC_SESSION_MS + 3 * REBALANCE_MS) // 1000):
            for client in self.clients:
                client.go_on(self.driver)
            self.driver.advance(1000)
        alive = [client for client in self.clients if client.state is not ClientState.CRASHED]
        group = self.driver.shard.classic_groups.find(GROUP)
        if not alive:
            assert group is None or (group.state is GroupState.EMPTY and not self.driver.parked)
            return
        assert group is not None
        assert group.state is GroupState.STABLE, group.state
        assert {client.member_id for client in alive} == group.members.keys()
        assert {(client.state, client.generation) for client in alive} == {(ClientState.STABLE, group.generation)}
        assert sorted(partition for client in alive for partition in client.owned) == list(range(PARTITIONS))
        assert not self.driver.parked
        self.replica = LogReplica()
        self.durable_state_is_a_replay_of_the_log()


class BatchingGroupMachine(GroupMachine):
    """The same machine for a group that batches joins and leaves."""

    config = GroupCoordinatorConfig(rebalance_batch_ms=2000)


TestBatchingGroup = pytest.mark.timeout(300)(BatchingGroupMachine.TestCase)
TestBatchingGroup.settings = settings(
    max_examples=examples(200), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
TestGroup = pytest.mark.timeout(300)(GroupMachine.TestCase)
TestGroup.settings = settings(
    max_examples=examples(400), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)

"""The decisions on classic groups, as the contract of a kind of group wants them: passes each on to its file."""

from __future__ import annotations

from collections.abc import Iterator

from klamm.core.coordinator.cluster_topics import NO_TOPICS, ClusterTopics
from klamm.core.coordinator.shard_contract import BackgroundTask, ClientContext, Result, Ticket, TimerKey
from klamm.core.group.classic.callbacks import on_classic_groups_loaded, on_classic_groups_unloaded, on_classic_timer
from klamm.core.group.classic.classic_events import needed
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.classic_groups import ClassicGroups
from klamm.core.group.classic.classic_store import ClassicStore
from klamm.core.group.classic.group_description import describe_groups
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.heartbeats import heartbeat
from klamm.core.group.classic.joins import join_group
from klamm.core.group.classic.leaves import leave_group
from klamm.core.group.classic.offset_checks import check_commit, check_transactional_commit
from klamm.core.group.classic.rebalance import prepare_rebalance
from klamm.core.group.classic.syncs import sync_group
from klamm.core.group.classic.timers import session_timer
from klamm.core.group.events import Cause
from klamm.core.group.group_kind import KindServices
from klamm.core.group.partition_traffic import Traffic
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequestGroup
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest
from klamm.protocol.types import Millis

__all__ = ["ClassicShard"]


class ClassicShard:
    """The classic groups of a shard. Decides also on the first requests to a group that does not exist yet."""

    def __init__(self, services: KindServices) -> None:
        self.store = services.store.of(ClassicStore)
        self.groups = ClassicGroups(self.store)
        self._all_groups = services.store
        self.config = services.config
        self._new_member_id = services.new_member_id
        self._topics: ClusterTopics = NO_TOPICS

    # Groups

    def find(self, group_id: str) -> ClassicGroup | None:
        """Returns the group with that id, or None."""
        return self.groups.find(group_id)

    def peek(self, group_id: str) -> ClassicGroup:
        """Returns an existing group, for reading only: a round that has to be created is not kept."""
        return self.groups.peek(group_id)

    def summary(self, group_id: str) -> tuple[str, str]:
        """Returns state and protocol type of an existing group; a simple group has no protocol type."""
        state, protocol_type = self.groups.summary(group_id)
        return state.value, protocol_type or ""

    def member_count(self, group_id: str) -> int:
        """Returns the number of members of an existing group."""
        return self.groups.member_count(group_id)

    def forget(self, group_id: str) -> None:
        """Drops the round of a group that has ended."""
        self.groups.forget(group_id)

    # Life

    def on_loaded(self, topics: ClusterTopics, now: Millis) -> Iterator[Result]:
        """Yields the steps that take over the loaded groups; see `callbacks.py`."""
        self._topics = topics
        return on_classic_groups_loaded(self.groups, self.config, self._all_groups.converted, now)

    def on_unloaded(self, result: Result) -> None:
        """Answers every parked request with NOT_COORDINATOR."""
        on_classic_groups_unloaded(self.groups, result)

    def on_topics(self, topics: ClusterTopics) -> Iterator[Result]:
        """Takes the cluster's new topics; there is no more to do, because the members watch the topics themselves."""
        self._topics = topics
        return iter(())

    def on_traffic(self, traffic: Traffic, result: Result) -> None:
        """Does nothing: the leader of a classic group assigns the partitions."""

    def on_timer(self, key: TimerKey, now: Millis) -> Result:
        """Decides on an expired timer; see `callbacks.py`."""
        return on_classic_timer(self.groups, self.config, key, now)

    def on_task(self, task: BackgroundTask, outcome: object, now: Millis) -> Result:
        """Does nothing: classic groups start no background tasks."""
        return Result()

    def rebalance(self, group_id: str, now: Millis) -> Result:
        """Starts a rebalance unless one is in progress; see `rebalance.py`."""
        group = self._expect(group_id)
        result = Result()
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            cause = needed(group, Cause.ADMIN, None, "an administrator asked for it", now)
            prepare_rebalance(group, [cause], self.config, result, now)
        return result

    def end_session(self, group_id: str, member_id: str, now: Millis) -> Result:
        """Removes the member; see `heartbeats.py`. A member that waits for the others to join has no session."""
        if member_id not in self._expect(group_id).members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id} has no member {member_id}")
        return on_classic_timer(self.groups, self.config, session_timer(group_id, member_id), now)

    def _expect(self, group_id: str) -> ClassicGroup:
        group = self.groups.find(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        return group

    # Requests that only classic groups get

    def describe(self, request: DescribeGroupsRequest, context: ClientContext, ticket: Ticket) -> Result:
        """Decides on DescribeGroups; see `group_description.py`."""
        return describe_groups(self.groups, self._all_groups, request, context, ticket)

    # Requests of the classic protocol

    def join_group(self, request: JoinGroupRequest, context: ClientContext, ticket: Ticket, now: Millis) -> Result:
        """Decides on JoinGroup; see `joins.py`."""
        new_member_id = ""
        if not request.member_id:
            instance = request.group_instance_id
            new_member_id = self._new_member_id(context.client_id if instance is None else instance)
        return join_group(
            self.groups,
            self._topics,
            self.config,
            request,
            context,
            ticket=ticket,
            now=now,
            new_member_id=new_member_id,
        )

    def sync_group(self, request: SyncGroupRequest, ticket: Ticket, now: Millis) -> Result:
        """Decides on SyncGroup; see `syncs.py`."""
        return sync_group(self.groups, self.config, request, ticket, now)

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now: Millis) -> Result:
        """Decides on Heartbeat; see `heartbeats.py`."""
        return heartbeat(self.groups, request, ticket)

    def leave_group(self, request: LeaveGroupRequest, ticket: Ticket, now: Millis) -> Result:
        """Decides on LeaveGroup; see `leaves.py`."""
        return leave_group(self.groups, self.config, request, ticket, now)

    # Offsets

    def check_commit(self, request: OffsetCommitRequest, api_version: int, result: Result) -> None:
        """Checks that the sender may commit; see `offset_checks.py`."""
        member = check_commit(self.groups.find(request.group_id), request, api_version)
        if member is not None:
            # A commit is a sign of life, so the session timer starts again.
            result.timers.append((member.session_timer, member.session_timeout_ms))

    def note_commit(self, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        """Notes that the member has committed, if an offset was accepted.

        An unchanged offset counts as well: its member has nothing to read, and is in no crash loop.
        """
        group = self.groups.find(request.group_id)
        member = None if group is None else group.members.get(request.member_id)
        if member is not None and not member.has_committed:
            member.has_committed = any(not each.error_code for topic in response.topics for each in topic.partitions)

    def check_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """Checks that the sender may commit in a transaction; see `offset_checks.py`."""
        check_transactional_commit(self.groups.find(request.group_id), request)

    def note_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """Notes that the member has committed, if the request names one."""
        group = self.groups.find(request.group_id) if request.member_id else None
        member = None if group is None else group.members.get(request.member_id)
        if member is not None:
            member.has_committed = True

    def check_fetch(self, request: OffsetFetchRequestGroup) -> None:
        """Does nothing: every client may read the offsets of a classic group."""

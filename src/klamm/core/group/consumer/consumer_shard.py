"""The decisions on consumer groups, as the contract of a kind of group wants them: passes each on to its file.

Members of the classic protocol may be in a consumer group (KIP-848), so it gets the requests of that protocol, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.coordinator.shard_contract import BackgroundTask, ClientContext, Result, Ticket, TimerKey
from klamm.core.group.classic.classic_shard import ClassicShard
from klamm.core.group.consumer.callbacks import on_consumer_groups_loaded, on_consumer_task, on_consumer_timer
from klamm.core.group.consumer.changed_subscriptions import at_present
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_groups import CauseDetails, ConsumerGroups, Decision
from klamm.core.group.consumer.group_description import describe_consumer_groups
from klamm.core.group.consumer.group_epoch import raise_epoch
from klamm.core.group.consumer.heartbeats import consumer_group_heartbeat
from klamm.core.group.consumer.load_trigger import on_traffic
from klamm.core.group.consumer.migration.classic_joins import join_consumer_group
from klamm.core.group.consumer.migration.classic_members import (
    heartbeat_in_consumer_group,
    leave_consumer_group,
    sync_in_consumer_group,
)
from klamm.core.group.consumer.offset_checks import check_commit, check_fetch, check_transactional_commit
from klamm.core.group.consumer.timers import session_timer, target_timer
from klamm.core.group.events import Cause
from klamm.core.group.group_kind import KindServices, PartitionCheck, shard_of
from klamm.core.group.partition_traffic import Traffic
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequestGroup
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest
from klamm.protocol.types import Millis

__all__ = ["ConsumerShard"]


class ConsumerShard:
    """The consumer groups of a shard."""

    def __init__(self, services: KindServices) -> None:
        self._classic = shard_of(ClassicShard, services.shards)
        self.groups = ConsumerGroups(services, self._classic.groups)
        self.store = self.groups.store

    # Groups

    def find(self, group_id: str) -> ConsumerGroup | None:
        """Returns the group with that id, or None."""
        return self.store.groups.get(group_id)

    def peek(self, group_id: str) -> ConsumerGroup:
        """Returns an existing group."""
        return self.store.groups[group_id]

    def summary(self, group_id: str) -> tuple[str, str]:
        """Returns state and protocol type of an existing group."""
        group = self.store.groups[group_id]
        return group.state.value, group.protocol_type

    def member_count(self, group_id: str) -> int:
        """Returns the number of members of an existing group, of either protocol."""
        return len(self.store.groups[group_id].members)

    def forget(self, group_id: str) -> None:
        """Drops the volatile state of a group that has ended."""
        self.groups.forget(group_id)

    # Life

    def on_loaded(self, topics: ClusterTopics, now: Millis) -> Iterator[Result]:
        """Yields the steps that take over the loaded groups; see `callbacks.py`."""
        return on_consumer_groups_loaded(self.groups, topics, now)

    def on_unloaded(self, result: Result) -> None:
        """Does nothing: a consumer group parks no requests."""

    def on_topics(self, topics: ClusterTopics) -> Iterator[Result]:
        """Takes the cluster's new topics; the steps mark the groups that read a changed topic."""
        return self.groups.on_topics(topics)

    def on_traffic(self, traffic: Traffic, result: Result) -> None:
        """Starts to weigh the groups that are assigned by load; see `load_trigger.py`."""
        on_traffic(self.groups, traffic, result)

    def on_timer(self, key: TimerKey, now: Millis) -> Result:
        """Decides on an expired timer; see `callbacks.py`."""
        return on_consumer_timer(self.groups, key, now)

    def on_task(self, task: BackgroundTask, outcome: object, now: Millis) -> Result:
        """Decides on the outcome of a background task; see `callbacks.py`."""
        return on_consumer_task(self.groups, task, outcome, now)

    def rebalance(self, group_id: str, now: Millis) -> Result:
        """Raises the group epoch, and makes a new target assignment; see `group_epoch.py`."""
        group = self.store.groups[group_id]
        decision = Decision(self.groups, Result(), now)
        if group.members:
            cause = CauseDetails(Cause.ADMIN, "an administrator asked for it")
            raise_epoch(decision, group, at_present(group), [cause], member_id=None, member_ids=list(group.members))
            decision.result.arm(target_timer(group_id), 0)
        return decision.result

    def end_session(self, group_id: str, member_id: str, now: Millis) -> Result:
        """Removes the member; see `member_removal.py`."""
        if member_id not in self.store.groups[group_id].members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id} has no member {member_id}")
        return on_consumer_timer(self.groups, session_timer(group_id, member_id), now)

    # Requests that only consumer groups get

    def consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Decides on ConsumerGroupHeartbeat; see `heartbeats.py`."""
        return consumer_group_heartbeat(self.groups, request, context, ticket, now)

    def describe(self, request: ConsumerGroupDescribeRequest, ticket: Ticket) -> Result:
        """Decides on ConsumerGroupDescribe; see `group_description.py`."""
        return describe_consumer_groups(self.groups, request, ticket)

    # Requests of the classic protocol

    def join_group(self, request: JoinGroupRequest, context: ClientContext, ticket: Ticket, now: Millis) -> Result:
        """Decides on JoinGroup; see `migration/classic_joins.py`. A classic group replaces an empty consumer group."""
        group = self.store.groups[request.group_id]
        if group.is_empty:
            result = self._classic.join_group(request, context, ticket, now)
            if result.records:
                result.records[:0] = group.tombstones()
            return result
        decision = Decision(self.groups, Result(), now)
        join_consumer_group(decision, group, request, context, ticket)
        return decision.result

    def sync_group(self, request: SyncGroupRequest, ticket: Ticket, now: Millis) -> Result:
        """Decides on SyncGroup; see `migration/classic_members.py`."""
        decision = Decision(self.groups, Result(), now)
        sync_in_consumer_group(decision, self.store.groups[request.group_id], request, ticket)
        return decision.result

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now: Millis) -> Result:
        """Decides on Heartbeat; see `migration/classic_members.py`."""
        decision = Decision(self.groups, Result(), now)
        heartbeat_in_consumer_group(decision, self.store.groups[request.group_id], request, ticket)
        return decision.result

    def leave_group(self, request: LeaveGroupRequest, ticket: Ticket, now: Millis) -> Result:
        """Decides on LeaveGroup; see `migration/classic_members.py`."""
        decision = Decision(self.groups, Result(), now)
        leave_consumer_group(decision, self.store.groups[request.group_id], request, ticket)
        return decision.result

    # Offsets

    def check_commit(self, request: OffsetCommitRequest, api_version: int, result: Result) -> PartitionCheck | None:
        """Checks that the sender may commit; see `offset_checks.py`. A commit does not restart the session."""
        return check_commit(self.store.groups[request.group_id], request, api_version)

    def note_commit(self, request: OffsetCommitRequest, response: OffsetCommitResponse) -> None:
        """Notes the commit in the member's lifetime."""
        self.groups.note_commit(request.group_id, request.member_id)

    def check_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """Checks that the sender may commit in a transaction; see `offset_checks.py`."""
        groups = self.groups
        max_metadata_length = groups.config.offset_metadata_max_bytes
        check_transactional_commit(self.store.groups[request.group_id], request, groups.topics, max_metadata_length)

    def note_transactional_commit(self, request: TxnOffsetCommitRequest) -> None:
        """Notes the commit in the member's lifetime."""
        self.groups.note_commit(request.group_id, request.member_id)

    def check_fetch(self, request: OffsetFetchRequestGroup) -> None:
        """Checks that the sender may read the committed offsets; see `offset_checks.py`."""
        check_fetch(self.store.groups[request.group_id], request.member_id, request.member_epoch)

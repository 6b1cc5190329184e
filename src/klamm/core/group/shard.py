"""The group coordinator on one partition of `__consumer_offsets`: passes each request to the file that decides it.

After Apache Kafka's `GroupCoordinatorShard`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.coordinator.shard_contract import (
    BackgroundTask,
    ClientContext,
    CoordinatorRecord,
    DeletedTopic,
    RequestToSend,
    Result,
    Ticket,
    TimerKey,
    TimerKind,
)
from klamm.core.group.assignors.assignor import Assignor
from klamm.core.group.classic.callbacks import CLASSIC_TIMERS, on_classic_timer
from klamm.core.group.classic.classic_events import loaded, needed
from klamm.core.group.classic.group_description import describe_groups
from klamm.core.group.classic.group_state import GroupEvent
from klamm.core.group.classic.heartbeats import heartbeat
from klamm.core.group.classic.joins import Join
from klamm.core.group.classic.leaves import leave_group
from klamm.core.group.classic.rebalance import answer_parked_requests, prepare_rebalance
from klamm.core.group.classic.syncs import sync_group
from klamm.core.group.consumer.callbacks import (
    CONSUMER_TIMERS,
    GROUPS_PER_LOAD_STEP,
    on_consumer_groups_loaded,
    on_consumer_task,
    on_consumer_timer,
)
from klamm.core.group.consumer.consumer_groups import ConsumerGroups, Decision
from klamm.core.group.consumer.follow_ups import after_append
from klamm.core.group.consumer.group_description import describe_consumer_groups
from klamm.core.group.consumer.heartbeats import consumer_group_heartbeat
from klamm.core.group.consumer.load_trigger import on_traffic
from klamm.core.group.consumer.migration.classic_joins import ClassicJoin
from klamm.core.group.consumer.migration.classic_members import (
    heartbeat_in_consumer_group,
    leave_consumer_group,
    sync_in_consumer_group,
)
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.events import Cause
from klamm.core.group.group_config import GroupConfigOf
from klamm.core.group.group_listing import list_groups
from klamm.core.group.group_registry import GroupRegistry
from klamm.core.group.group_store import GroupStore
from klamm.core.group.incremental_work import INCREMENTAL_WORK_TIMER, IncrementalWork
from klamm.core.group.offsets.lingering_commits import LingeringCommits
from klamm.core.group.offsets.offset_commits import commit_offsets
from klamm.core.group.offsets.offset_fetches import fetch_offsets
from klamm.core.group.offsets.offset_loading import OffsetLoader
from klamm.core.group.offsets.transactional_commits import commit_transactional_offsets
from klamm.core.group.partition_traffic import Traffic
from klamm.core.group.removal.deleted_topics import delete_topics
from klamm.core.group.removal.expiry import expire_groups
from klamm.core.group.removal.group_deletion import Deletions
from klamm.core.group.removal.removal_rules import delete_offsets
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_metadata_key import ConsumerGroupMetadataKey
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.offset_delete_request import OffsetDeleteRequest
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId

__all__ = ["EXPIRY_TIMER", "GroupShard"]

EXPIRY_TIMER: Final = TimerKey(TimerKind("expiry"))
"""The timer that starts the next removal of expired offsets and groups."""


class GroupShard:
    """Groups and offsets of one partition.

    `new_member_id` creates a member id for a classic group from a client id or group instance id. `new_uuid` creates
    one for a consumer group, even if the member uses the classic protocol. `group_config_of` returns the settings of a
    consumer group. `assignors` are the assignors for consumer groups, by name, the default first.
    """

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        new_member_id: Callable[[str], str],
        *,
        new_uuid: Callable[[], str],
        group_config_of: GroupConfigOf,
        assignors: Mapping[str, Assignor],
    ) -> None:
        self.config = config
        self.store = GroupStore()
        self.groups = GroupRegistry(self.store)
        self.consumer_groups = ConsumerGroups(
            self.groups, config, new_member_id=new_uuid, group_config_of=group_config_of, assignors=assignors
        )
        self._lingering = LingeringCommits()
        self._loader: OffsetLoader | None = None
        self._new_member_id = new_member_id
        self._incremental_work = IncrementalWork()
        self._deletions = Deletions(self.groups, self._incremental_work, config.looks_per_step)
        self._last_offset = Offset(-1)

    # The log

    def replay(
        self, offset: Offset, producer_id: ProducerId, producer_epoch: ProducerEpoch, record: CoordinatorRecord
    ) -> None:
        """Applies one record to the durable state; the volatile state of a deleted group is dropped with it."""
        self.store.replay(offset, producer_id, record)
        self._last_offset = offset
        if record.value is None:
            if isinstance(record.key, GroupMetadataKey):
                self.groups.forget(record.key.group)
            elif isinstance(record.key, ConsumerGroupMetadataKey):
                self.consumer_groups.forget(record.key.group_id)

    def replay_bytes(self, offset: Offset, producer_id: ProducerId, key: bytes, value: bytes | None) -> bool:
        """Applies a record of the common kind without decoding it as a message; see `offsets/offset_loading.py`."""
        if self._loader is None:
            self._loader = OffsetLoader(self.store)
        self._last_offset = offset
        return self._loader.replay(offset, producer_id, key, value)

    def replay_end_transaction_marker(
        self, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> None:
        """Makes a transaction's pending offsets visible, or drops them if it was aborted."""
        self.store.replay_end_transaction_marker(producer_id, committed)

    # Life

    def on_loaded(self, topics: ClusterTopics, now: Millis) -> Iterator[Result]:
        """Arms a session timer for every loaded member and the expiry timer, and starts rebalances that are due."""
        self._loader = None
        with_members = [group_id for group_id, metadata in self.store.groups.items() if metadata.members]
        for start in range(0, len(with_members), GROUPS_PER_LOAD_STEP):
            result = Result()
            for group_id in with_members[start : start + GROUPS_PER_LOAD_STEP]:
                self._on_group_loaded(group_id, result, now)
            yield result
        yield from on_consumer_groups_loaded(self.consumer_groups, topics, now)
        result = Result()
        result.arm(EXPIRY_TIMER, self.config.expiry_interval_ms)
        yield result

    def _on_group_loaded(self, group_id: str, result: Result, now: Millis) -> None:
        group = self.groups.find(group_id)
        if group is None:
            return  # A timer removed the group between two steps.
        for member in group.members.values():
            result.arm(member.session_timer, member.session_timeout_ms)
        result.events.append(loaded(group, now))
        if len(group.members) > self.config.max_size:
            detail = f"{len(group.members)} members are more than {self.config.max_size}"
            cause = needed(group, Cause.GROUP_TOO_LARGE, None, detail, now)
            prepare_rebalance(group, [cause], self.config, result, now)
        elif group_id in self.store.taken_back and group.members:
            # After a downgrade, a rebalance distributes the partitions of the members that used the consumer protocol.
            # That rebalance is lost with the coordinator that started it. Kafka's next coordinator does not repeat it,
            # and those partitions have no owner.
            detail = "the group has just turned classic, and its members are to join again"
            cause = needed(group, Cause.PROTOCOL_CHANGED, None, detail, now)
            prepare_rebalance(group, [cause], self.config, result, now)

    def on_unloaded(self) -> Result:
        """Answers every parked request with NOT_COORDINATOR."""
        result = Result()
        for group in self.groups.rounds():
            for member in group.members.values():
                answer_parked_requests(group, member, ErrorCode.NOT_COORDINATOR, result)
            group.move(GroupEvent.UNLOADED, group.state_timestamp_ms or Millis(0))
        self._deletions.on_unloaded(result)
        return result

    def on_metadata_update(self, topics: ClusterTopics, deleted_topics: Sequence[DeletedTopic], now: Millis) -> Result:
        """Starts to mark the groups that read changed topics, and to remove the offsets of deleted topics."""
        result = Result()
        self._incremental_work.add(self.consumer_groups.on_topics(topics), result)
        if deleted_topics:
            looks = self.config.looks_per_step
            gone = delete_topics(self.store, deleted_topics, last_offset=self._last_offset, looks_per_step=looks)
            self._incremental_work.add(gone, result)
        return result

    def on_traffic(self, traffic: Traffic, now: Millis) -> Result:
        """Takes the latest traffic, and starts to weigh the groups assigned by load; see `consumer/load_trigger.py`."""
        return on_traffic(self.consumer_groups, traffic, now)

    def handle_timer(self, key: TimerKey, now: Millis) -> Result:
        """Decides what follows from a timer that ran out; each kind of group has a table of its timers."""
        if key.kind in CONSUMER_TIMERS:
            return on_consumer_timer(self.consumer_groups, key, now)
        if key.kind in CLASSIC_TIMERS:
            return on_classic_timer(self.groups, self.config, key, now)
        if key == INCREMENTAL_WORK_TIMER:
            return self._incremental_work.step(now)
        assert key == EXPIRY_TIMER, key
        result = Result()
        self._incremental_work.add(self._expire(), result)
        return result

    def handle_outcome(self, effect: BackgroundTask | RequestToSend, outcome: object, now: Millis) -> Result:
        """Decides what follows from the outcome of a background task; only consumer groups start such tasks."""
        return on_consumer_task(self.consumer_groups, effect, outcome, now)

    def _expire(self) -> Iterator[Result]:
        yield from expire_groups(self.groups, self.config, lambda: self._incremental_work.now)
        result = Result()
        result.arm(EXPIRY_TIMER, self.config.expiry_interval_ms)
        yield result

    # Membership

    def handle_join_group(
        self, request: JoinGroupRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles JoinGroup; see `classic/joins.py`. A classic group replaces an empty consumer group."""
        self._deletions.check(request.group_id)
        consumer_group = self.store.consumer_groups.get(request.group_id)
        if consumer_group is not None and not consumer_group.is_empty:
            decision = Decision(self.consumer_groups, Result(), now)
            ClassicJoin(
                decision,
                consumer_group,
                request=request,
                context=context,
                ticket=ticket,
            ).decide()
            return decision.result
        new_member_id = ""
        if not request.member_id:
            instance = request.group_instance_id
            new_member_id = self._new_member_id(context.client_id if instance is None else instance)
        result = Join(
            groups=self.groups,
            topics=self.consumer_groups.topics,
            config=self.config,
            request=request,
            context=context,
            ticket=ticket,
            now=now,
            new_member_id=new_member_id,
        ).decide()
        if consumer_group is not None and result.records:
            result.records[:0] = consumer_group.tombstones()
        return result

    def handle_consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles ConsumerGroupHeartbeat; see `consumer/heartbeats.py`."""
        self._deletions.check(request.group_id)
        return consumer_group_heartbeat(self.consumer_groups, request, context, ticket, now)

    def handle_sync_group(
        self, request: SyncGroupRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles SyncGroup; see `classic/syncs.py`, for a consumer group `migration/classic_members.py`."""
        consumer_group = self.store.consumer_groups.get(request.group_id)
        if consumer_group is not None:
            decision = Decision(self.consumer_groups, Result(), now)
            sync_in_consumer_group(decision, consumer_group, request, ticket)
            return decision.result
        return sync_group(self.groups, self.config, request, ticket, now)

    def handle_heartbeat(
        self, request: HeartbeatRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles Heartbeat; see `classic/heartbeats.py`, for a consumer group `migration/classic_members.py`."""
        consumer_group = self.store.consumer_groups.get(request.group_id)
        if consumer_group is not None:
            decision = Decision(self.consumer_groups, Result(), now)
            heartbeat_in_consumer_group(decision, consumer_group, request, ticket)
            return decision.result
        return heartbeat(self.groups, request, ticket)

    def handle_leave_group(
        self, request: LeaveGroupRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles LeaveGroup; see `classic/leaves.py`, for a consumer group `migration/classic_members.py`."""
        consumer_group = self.store.consumer_groups.get(request.group_id)
        if consumer_group is not None:
            decision = Decision(self.consumer_groups, Result(), now)
            leave_consumer_group(decision, consumer_group, request, ticket)
            return decision.result
        return leave_group(self.groups, self.config, request, ticket, now)

    # Offsets

    def handle_offset_commit(
        self, request: OffsetCommitRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles OffsetCommit; see `offsets/offset_commits.py`."""
        self._deletions.check(request.group_id)
        result = commit_offsets(self.groups, self._lingering, self.config, request, context, ticket=ticket, now=now)
        self.consumer_groups.note_commit(request.group_id, request.member_id)
        return result

    def handle_txn_offset_commit(
        self,
        request: TxnOffsetCommitRequest,
        context: ClientContext,
        ticket: Ticket,
        now: Millis,
        verification_guard: int,
    ) -> Result:
        """Handles TxnOffsetCommit; see `offsets/transactional_commits.py`."""
        topics = self.consumer_groups.topics
        result = commit_transactional_offsets(
            self.groups, topics, self.config, request, verification_guard, ticket=ticket, now=now
        )
        if result.records:
            after_append(result, partial(self.consumer_groups.note_commit, request.group_id, request.member_id))
        return result

    def put_aside(self, result: Result, limit_bytes: int) -> bool:
        """Keeps the records of a lingering commit; see `offsets/lingering_commits.py`."""
        assert result.linger_epoch is not None
        return self._lingering.put(result.records, result.linger_epoch, limit_bytes)

    def take_lingering(self) -> list[CoordinatorRecord]:
        """Returns the merged records of the lingering commits, and stops keeping them."""
        return self._lingering.take()

    def handle_offset_fetch(
        self, request: OffsetFetchRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles OffsetFetch; see `offsets/offset_fetches.py`."""
        for group in request.groups:
            self._deletions.check(group.group_id)
        return fetch_offsets(self.store, request, ticket)

    def handle_offset_delete(
        self, request: OffsetDeleteRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles OffsetDelete; see `removal/removal_rules.py`."""
        self._deletions.check(request.group_id)
        return delete_offsets(self.groups, request, ticket)

    # Groups

    def handle_list_groups(
        self,
        request: ListGroupsRequest,
        context: ClientContext,
        ticket: Ticket,
        now: Millis,
        among: Sequence[str] | None = None,
    ) -> Result:
        """Handles ListGroups; see `group_listing.py`."""
        return list_groups(self.groups, request, ticket, among)

    def handle_describe_groups(
        self, request: DescribeGroupsRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles DescribeGroups; see `classic/group_description.py`."""
        return describe_groups(self.groups, request, context, ticket)

    def handle_consumer_group_describe(
        self, request: ConsumerGroupDescribeRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles ConsumerGroupDescribe; see `consumer/group_description.py`."""
        return describe_consumer_groups(self.consumer_groups, request, ticket)

    def handle_delete_groups(
        self, request: DeleteGroupsRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles DeleteGroups; see `removal/group_deletion.py`."""
        return self._deletions.decide(request, ticket, now)

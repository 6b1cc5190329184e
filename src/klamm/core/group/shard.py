"""The group coordinator on one partition of `__consumer_offsets`: passes each request to the file that decides it.

A request that groups of several kinds get is decided by the kind that has the group (`group_kind.py`).

After Apache Kafka's `GroupCoordinatorShard`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, cast

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
from klamm.core.group.classic.classic_shard import ClassicShard
from klamm.core.group.consumer.consumer_shard import ConsumerShard
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.follow_ups import if_refused
from klamm.core.group.group_config import GroupConfigOf
from klamm.core.group.group_kind import GroupKind, KindServices, shard_of
from klamm.core.group.group_kinds import GROUP_KINDS, empty_store
from klamm.core.group.group_listing import list_groups
from klamm.core.group.group_registry import GroupRegistry
from klamm.core.group.incremental_work import INCREMENTAL_WORK_TIMER, IncrementalWork
from klamm.core.group.offsets.lingering_commits import LingeringCommits
from klamm.core.group.offsets.offset_commits import commit_offsets
from klamm.core.group.offsets.offset_fetches import fetch_offsets
from klamm.core.group.offsets.offset_loading import OffsetLoader
from klamm.core.group.offsets.transactional_commits import commit_transactional_offsets
from klamm.core.group.partition_traffic import Traffic
from klamm.core.group.removal.deleted_topics import delete_offsets_of_topics
from klamm.core.group.removal.expiry import expire_groups
from klamm.core.group.removal.group_deletion import Deletions
from klamm.core.group.removal.removal_rules import delete_offsets
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
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
_DELETION_TIMER: Final = TimerKey(TimerKind("deletion of offsets"))
_DELETE_AGAIN_MS: Final = 5_000


class GroupShard:
    """Groups and offsets of one partition.

    `new_member_id` creates a member id for a classic group from a client id or group instance id. `new_uuid` creates
    one for a consumer group, even if the member uses the classic protocol. `group_config_of` returns the settings of a
    consumer group. `assignors` are the assignors for consumer groups, by name, the default first. `kinds` are the kinds
    of groups.
    """

    def __init__(
        self,
        config: GroupCoordinatorConfig,
        new_member_id: Callable[[str], str],
        *,
        new_uuid: Callable[[], str],
        group_config_of: GroupConfigOf,
        assignors: Mapping[str, Assignor],
        kinds: Sequence[GroupKind] = GROUP_KINDS,
    ) -> None:
        self.config = config
        self.store = empty_store(kinds)
        services = KindServices(self.store, config, new_member_id, new_uuid, group_config_of, assignors)
        for kind in kinds:
            services.shards.append(kind.shard(services))
        self.groups = GroupRegistry(self.store, services.shards)
        # For the APIs that only one kind has.
        self._classic = shard_of(ClassicShard, services.shards)
        self._consumer = shard_of(ConsumerShard, services.shards)
        self.classic_groups = self._classic.groups
        self.consumer_groups = self._consumer.groups
        shard_by_kind = [*zip(kinds, services.shards, strict=True)]
        self._on_timer = {timer: shard.on_timer for kind, shard in shard_by_kind for timer in kind.timers}
        self._on_task = {task: shard.on_task for kind, shard in shard_by_kind for task in kind.tasks}
        self._lingering = LingeringCommits()
        self._loader: OffsetLoader | None = None
        self._incremental_work = IncrementalWork()
        self._deletions = Deletions(self.groups, self._incremental_work, config.looks_per_step)
        self._last_offset = self._last_loaded_offset = Offset(-1)
        self._refused_deletions: list[tuple[Sequence[DeletedTopic], Offset]] = []
        """Deleted topics whose offsets are still to be deleted, with the last offset of the log at that time."""

    # The log

    def replay(
        self, offset: Offset, producer_id: ProducerId, producer_epoch: ProducerEpoch, record: CoordinatorRecord
    ) -> None:
        """Applies one record to the durable state; the volatile state of a deleted group is dropped with it."""
        ended = self.store.replay(offset, producer_id, record)
        self._last_offset = offset
        if ended is not None:
            self.groups.forget(*ended)

    @property
    def _has_written(self) -> bool:
        """Whether the shard has written a record since its load. A replica may have another offset until then, which an
        earlier coordinator has appended and which is not committed. If this replica is elected next, that offset
        counts. A committed record of this shard rules this out."""
        return self._last_offset > self._last_loaded_offset

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
        """Lets each kind take over its groups, then arms the expiry timer."""
        self._loader = None
        self._last_loaded_offset = self._last_offset
        for kind in self.groups.shards:
            yield from kind.on_loaded(topics, now)
        result = Result()
        result.arm(EXPIRY_TIMER, self.config.expiry_interval_ms)
        yield result

    def on_unloaded(self) -> Result:
        """Answers every parked request with NOT_COORDINATOR."""
        result = Result()
        for kind in self.groups.shards:
            kind.on_unloaded(result)
        self._deletions.on_unloaded(result)
        return result

    def on_metadata_update(self, topics: ClusterTopics, deleted_topics: Sequence[DeletedTopic], now: Millis) -> Result:
        """Starts to mark the groups that read changed topics, and to remove the offsets of deleted topics."""
        result = Result()
        steps = [kind.on_topics(topics) for kind in self.groups.shards]
        self._incremental_work.add(chain.from_iterable(steps), result)
        if deleted_topics:
            self._incremental_work.add(self._delete_offsets(deleted_topics, self._last_offset), result)
        return result

    def _delete_offsets(self, topics: Sequence[DeletedTopic], last_offset: Offset) -> Iterator[Result]:
        """Yields the steps of the deletion. If the log refuses some of them, all are repeated later: otherwise a topic
        that is created again would get the offsets of the deleted one."""
        is_refused = False

        def note_refusal(again: Result) -> None:
            nonlocal is_refused
            is_refused = True

        for step in delete_offsets_of_topics(
            self.store, topics, last_offset=last_offset, looks_per_step=self.config.looks_per_step
        ):
            if step.records:
                if_refused(step, note_refusal)
            yield step
        if is_refused:
            self._refused_deletions.append((topics, last_offset))
            result = Result()
            result.arm(_DELETION_TIMER, _DELETE_AGAIN_MS)
            yield result

    def _delete_again(self) -> Result:
        result = Result()
        refused, self._refused_deletions = self._refused_deletions, []
        for topics, last_offset in refused:
            self._incremental_work.add(self._delete_offsets(topics, last_offset), result)
        return result

    def on_traffic(self, traffic: Traffic, now: Millis) -> Result:
        """Gives the latest traffic to each kind; consumer groups may be assigned by it (`consumer/load_trigger.py`)."""
        result = Result()
        for kind in self.groups.shards:
            kind.on_traffic(traffic, result)
        return result

    def handle_timer(self, key: TimerKey, now: Millis) -> Result:
        """Decides what follows from a timer that ran out; the table of kinds names the timers of each kind."""
        on_timer = self._on_timer.get(key.kind)
        if on_timer is not None:
            return on_timer(key, now)
        if key == INCREMENTAL_WORK_TIMER:
            return self._incremental_work.step(now)
        if key == _DELETION_TIMER:
            return self._delete_again()
        assert key == EXPIRY_TIMER, key
        result = Result()
        self._incremental_work.add(self._expire(), result)
        return result

    def handle_outcome(self, effect: BackgroundTask | RequestToSend, outcome: object, now: Millis) -> Result:
        """Decides what follows from the outcome of a background task; the table of kinds names the tasks of each kind.

        Groups send no requests.
        """
        task = cast(BackgroundTask, effect)
        return self._on_task[type(task)](task, outcome, now)

    def _expire(self) -> Iterator[Result]:
        yield from expire_groups(self.groups, self.config, lambda: self._incremental_work.now)
        result = Result()
        result.arm(EXPIRY_TIMER, self.config.expiry_interval_ms)
        yield result

    # Membership

    def handle_join_group(
        self, request: JoinGroupRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles JoinGroup, in the kind that has the group; see `classic/joins.py`, `migration/classic_joins.py`."""
        self._deletions.check(request.group_id)
        return self.groups.kind_of(request.group_id).join_group(request, context, ticket, now)

    def handle_consumer_group_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles ConsumerGroupHeartbeat, an API of consumer groups."""
        self._deletions.check(request.group_id)
        return self._consumer.consumer_group_heartbeat(request, context, ticket, now)

    def handle_sync_group(
        self, request: SyncGroupRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles SyncGroup, in the kind that has the group; see `classic/syncs.py`, `migration/classic_members.py`."""
        return self.groups.kind_of(request.group_id).sync_group(request, ticket, now)

    def handle_heartbeat(
        self, request: HeartbeatRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles Heartbeat, as SyncGroup; see `classic/heartbeats.py`, `migration/classic_members.py`."""
        return self.groups.kind_of(request.group_id).heartbeat(request, ticket, now)

    def handle_leave_group(
        self, request: LeaveGroupRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles LeaveGroup, as SyncGroup; see `classic/leaves.py`, `migration/classic_members.py`."""
        return self.groups.kind_of(request.group_id).leave_group(request, ticket, now)

    # Offsets

    def handle_offset_commit(
        self, request: OffsetCommitRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles OffsetCommit; see `offsets/offset_commits.py`."""
        self._deletions.check(request.group_id)
        return commit_offsets(
            self.groups,
            self._lingering,
            self.config,
            request,
            context,
            ticket=ticket,
            now=now,
            has_written=self._has_written,
        )

    def handle_txn_offset_commit(
        self,
        request: TxnOffsetCommitRequest,
        context: ClientContext,
        ticket: Ticket,
        now: Millis,
        verification_guard: int,
    ) -> Result:
        """Handles TxnOffsetCommit; see `offsets/transactional_commits.py`."""
        self._deletions.check(request.group_id)
        return commit_transactional_offsets(
            self.groups, self.config, request, verification_guard, ticket=ticket, now=now
        )

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
        return fetch_offsets(self.groups, request, ticket)

    def handle_offset_delete(
        self, request: OffsetDeleteRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles OffsetDelete; see `removal/removal_rules.py`."""
        self._deletions.check(request.group_id)
        return delete_offsets(self.groups, request, ticket, has_written=self._has_written)

    # What an administrator asks for, without a request of the protocol

    def rebalance(self, group_id: str, now: Millis) -> Result:
        """Lets the group rebalance. Raises GROUP_ID_NOT_FOUND."""
        return self.groups.kind_of(group_id).rebalance(group_id, now)

    def end_session(self, group_id: str, member_id: str, now: Millis) -> Result:
        """Removes the member as if its session had timed out. Raises GROUP_ID_NOT_FOUND or UNKNOWN_MEMBER_ID."""
        return self.groups.kind_of(group_id).end_session(group_id, member_id, now)

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
        """Handles DescribeGroups, an API of classic groups."""
        return self._classic.describe(request, context, ticket)

    def handle_consumer_group_describe(
        self, request: ConsumerGroupDescribeRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles ConsumerGroupDescribe, an API of consumer groups."""
        return self._consumer.describe(request, ticket)

    def handle_delete_groups(
        self, request: DeleteGroupsRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """Handles DeleteGroups; see `removal/group_deletion.py`."""
        return self._deletions.delete_groups(request, ticket, now)

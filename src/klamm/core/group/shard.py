"""The group coordinator on one partition of `__consumer_offsets`: hands each request to the file that decides it.

After Apache Kafka's `GroupCoordinatorShard`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from klamm.core.coordinator.contract import (
    ClientContext,
    CoordinatorRecord,
    DeletedTopic,
    Result,
    Ticket,
    TimerKey,
)
from klamm.core.group.config import GroupConfig
from klamm.core.group.descriptions import describe_groups, list_groups
from klamm.core.group.heartbeats import heartbeat, on_session_timer
from klamm.core.group.joins import Join
from klamm.core.group.leaves import leave_group
from klamm.core.group.offset_commits import commit_offsets
from klamm.core.group.offset_fetches import fetch_offsets
from klamm.core.group.rebalance import answer_parked_requests, on_join_timer, prepare_rebalance
from klamm.core.group.registry import GroupRegistry
from klamm.core.group.removals import delete_groups, delete_offsets, delete_topics, expire_group
from klamm.core.group.states import GroupEvent
from klamm.core.group.store import GroupStore
from klamm.core.group.syncs import on_sync_timer, sync_group
from klamm.protocol.errors import ErrorCode
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
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId

__all__ = ["GroupShard"]

_EXPIRY: Final[TimerKey] = ("expiry",)
_GROUPS_PER_EXPIRY_STEP: Final = 500
"""So many groups are looked at in one go: a millisecond or two, with the event loop free in between."""


class GroupShard:
    """Groups and offsets of one partition. `new_member_id` makes a member id from a client id or group instance id."""

    def __init__(self, config: GroupConfig, new_member_id: Callable[[str], str]) -> None:
        self.config = config
        self.store = GroupStore()
        self.groups = GroupRegistry(self.store)
        self._new_member_id = new_member_id
        self._groups_to_expire: list[str] = []

    # The log

    def replay(
        self, offset: Offset, producer_id: ProducerId, producer_epoch: ProducerEpoch, record: CoordinatorRecord
    ) -> None:
        """Apply one record to the durable state. The round of a group that goes, goes with it."""
        self.store.replay(offset, producer_id, record)
        if record.value is None and isinstance(record.key, GroupMetadataKey):
            self.groups.forget(record.key.group)

    def replay_end_transaction_marker(
        self, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> None:
        """Make a transaction's offsets visible, or forget them."""
        self.store.replay_end_transaction_marker(producer_id, committed)

    # Life

    def on_loaded(self, now: Millis) -> Result:
        """Give every member the log knows a session to be heard of in, and the offsets a time to be looked through."""
        result = Result()
        for group_id, metadata in self.store.groups.items():
            if not metadata.members:
                continue
            group = self.groups.find(group_id)
            assert group is not None
            for member in group.members.values():
                result.arm(member.session_timer, member.session_timeout_ms)
            if len(group.members) > self.config.max_size:
                prepare_rebalance(
                    group,
                    f"{len(group.members)} members are more than {self.config.max_size}",
                    self.config,
                    result,
                    now,
                )
        result.arm(_EXPIRY, self.config.offsets_retention_check_interval_ms)
        return result

    def on_unloaded(self) -> Result:
        """Answer every parked request with NOT_COORDINATOR."""
        result = Result()
        for group in self.groups.rounds():
            for member in group.members.values():
                answer_parked_requests(group, member, ErrorCode.not_coordinator, result)
            group.move(GroupEvent.UNLOADED, group.state_timestamp_ms or Millis(0))
        return result

    def on_metadata_update(self, deleted_topics: Sequence[DeletedTopic], now: Millis) -> Result:
        """Forget what was committed for topics that are gone."""
        return delete_topics(self.store, deleted_topics)

    def handle_timer(self, key: TimerKey, now: Millis) -> Result:
        """A session, a wait for members or assignments, or the time between two looks at old offsets is over."""
        result = Result()
        if key == _EXPIRY:
            return self._expire(now)
        kind, group_id, *rest = key
        group = self.groups.find(str(group_id))
        if group is None:
            return result  # It went while the timer ran.
        if kind == "session":
            on_session_timer(group, str(rest[0]), self.config, result, now)
        elif kind == "join":
            on_join_timer(group, self.config, result, now)
        else:
            on_sync_timer(group, self.config, result, now)
        return result

    def _expire(self, now: Millis) -> Result:
        result = Result(atomic=False)
        if not self._groups_to_expire:
            self._groups_to_expire = list(self.store.groups)
        step = self._groups_to_expire[-_GROUPS_PER_EXPIRY_STEP:]
        del self._groups_to_expire[-_GROUPS_PER_EXPIRY_STEP:]
        for group_id in step:
            if group_id in self.store.groups:
                expire_group(self.groups, group_id, self.config.offsets_retention_ms, result, now)
        interval_ms = 0 if self._groups_to_expire else self.config.offsets_retention_check_interval_ms
        result.arm(_EXPIRY, interval_ms)
        return result

    # Membership

    def handle_join_group(
        self, request: JoinGroupRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """See `joins.py`."""
        new_member_id = ""
        if not request.member_id:
            instance = request.group_instance_id
            new_member_id = self._new_member_id(context.client_id if instance is None else instance)
        return Join(
            groups=self.groups,
            config=self.config,
            request=request,
            context=context,
            ticket=ticket,
            now=now,
            new_member_id=new_member_id,
        ).decide()

    def handle_sync_group(
        self, request: SyncGroupRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """See `syncs.py`."""
        return sync_group(self.groups, self.config, request, ticket, now)

    def handle_heartbeat(
        self, request: HeartbeatRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """See `heartbeats.py`."""
        return heartbeat(self.groups, request, ticket)

    def handle_leave_group(
        self, request: LeaveGroupRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """See `leaves.py`."""
        return leave_group(self.groups, self.config, request, ticket, now)

    # Offsets

    def handle_offset_commit(
        self, request: OffsetCommitRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """See `offset_commits.py`."""
        return commit_offsets(self.groups, self.config, request, context, ticket=ticket, now=now)

    def handle_offset_fetch(
        self, request: OffsetFetchRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """See `offset_fetches.py`."""
        return fetch_offsets(self.store, request, ticket)

    def handle_offset_delete(
        self, request: OffsetDeleteRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """See `removals.py`."""
        return delete_offsets(self.groups, request, ticket)

    # Groups

    def handle_list_groups(
        self, request: ListGroupsRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """See `descriptions.py`."""
        return list_groups(self.groups, request, ticket)

    def handle_describe_groups(
        self, request: DescribeGroupsRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """See `descriptions.py`."""
        return describe_groups(self.groups, request, context, ticket)

    def handle_delete_groups(
        self, request: DeleteGroupsRequest, context: ClientContext, ticket: Ticket, now: Millis
    ) -> Result:
        """See `removals.py`."""
        return delete_groups(self.groups, request, ticket)

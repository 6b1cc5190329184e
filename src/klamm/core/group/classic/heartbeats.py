"""Heartbeats and session timeouts of members of a classic group.

After Apache Kafka's `GroupMetadataManager.classicGroupHeartbeat` and `expireClassicGroupMemberHeartbeat`.
"""

from __future__ import annotations

from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.group.classic.classic_events import lost, needed, removed
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.classic_groups import ClassicGroups
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.member import Member
from klamm.core.group.classic.rebalance import answer_parked_requests, complete_join, rebalance_soon
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.events import Cause
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.types import Millis

__all__ = ["heartbeat", "on_session_timer"]


def heartbeat(groups: ClassicGroups, request: HeartbeatRequest, ticket: Ticket) -> Result:
    """Restarts the member's session; tells the member to join again while a rebalance gathers members.

    Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or ILLEGAL_GENERATION.
    """
    group = groups.find(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    result = Result()
    result.timers.append((member.session_timer, member.session_timeout_ms))
    is_gathering = group.state is GroupState.PREPARING_REBALANCE
    code = ErrorCode.REBALANCE_IN_PROGRESS if is_gathering else ErrorCode.NONE
    result.replies.append((ticket, HeartbeatResponse(error_code=code)))
    if not is_gathering:
        result.reusable_answer = _ReusableAnswer(groups, group, member, request.group_instance_id)
    return result


class _ReusableAnswer:
    """The state that an answer depends on: a member of this generation that does not have to join again."""

    __slots__ = ("generation", "group", "groups", "instance_id", "member", "session_timeout_ms")

    def __init__(self, groups: ClassicGroups, group: ClassicGroup, member: Member, instance_id: str | None) -> None:
        self.groups = groups
        self.group = group
        self.member = member
        self.instance_id = instance_id
        self.generation = group.generation
        self.session_timeout_ms = member.session_timeout_ms

    def holds(self, now: Millis) -> bool:
        """Returns whether the member is still in the same generation and does not have to join again."""
        group, member = self.group, self.member
        group_id = group.group_id
        return (
            group.generation == self.generation
            and group.state is not GroupState.PREPARING_REBALANCE
            and group.members.get(member.member_id) is member
            and member.session_timeout_ms == self.session_timeout_ms
            and (self.instance_id is None or group.static_members.get(self.instance_id) == member.member_id)
            and self.groups.find(group_id) is group
            and group_id in self.groups.store.groups  # it may be of another kind by now
        )


def on_session_timer(
    group: ClassicGroup, member_id: str, config: GroupCoordinatorConfig, result: Result, now: Millis
) -> None:
    """Removes a member or a pending member id whose session has expired."""
    if member_id in group.pending_join:
        group.remove(member_id)
        if group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined:
            complete_join(group, result, now)
        return
    member = group.members.get(member_id)
    if member is None or member.is_alive_while_waiting:
        return
    # A new member may still have a parked JoinGroup; if the client is alive, it tries again.
    answer_parked_requests(group, member, ErrorCode.UNKNOWN_MEMBER_ID, result)
    group.remove(member_id)
    if member.is_new:
        # The client may be alive; it has only waited longer than a new member may.
        detail = f"it waited for {config.new_member_join_timeout_ms} ms to join"
        result.events.append(removed(group, member_id, Cause.SESSION_TIMED_OUT, detail, now))
        cause = needed(group, Cause.SESSION_TIMED_OUT, member_id, f"member {member_id}: {detail}", now)
    else:
        detail = f"no heartbeat for {member.session_timeout_ms} ms"
        died_at = Millis(now - member.session_timeout_ms)
        event, cause = lost(group, member, Cause.SESSION_TIMED_OUT, detail, now, died_at=died_at)
        result.events.append(event)
    if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        rebalance_soon(group, [cause], config, result, now)
        return
    result.events.append(cause)
    if group.state is GroupState.PREPARING_REBALANCE and group.has_all_members_joined:
        complete_join(group, result, now)

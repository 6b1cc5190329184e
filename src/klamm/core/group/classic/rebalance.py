"""Rebalances of a classic group: starting one, gathering the members, raising the generation.

A rebalance has two halves. In PreparingRebalance every member's JoinGroup is parked until all have joined or the time
is up. Then the generation rises, all members are told, and the group is in CompletingRebalance until the leader's
SyncGroup brings the assignments (`syncs.py`). The first rebalance of an empty group waits a little for more members,
since each later one would cost another rebalance. A stable group can be configured to wait, too, for the same reason;
Kafka has no such setting.

The functions write the outcome into the given result. After Apache Kafka's `GroupMetadataManager`:
`prepareRebalance`, `maybeCompleteJoinPhase`, `completeClassicGroupJoin`, `tryCompleteInitialRebalanceElseSchedule`.
"""

from __future__ import annotations

from collections.abc import Sequence

from klamm.core.coordinator.shard_contract import Result
from klamm.core.group.classic.classic_events import lost, new_generation, stable
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.group_metadata import group_metadata_record
from klamm.core.group.classic.group_state import GroupEvent, GroupState
from klamm.core.group.classic.member import Member
from klamm.core.group.classic.timers import batch_timer, join_timer, sync_timer
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.events import Cause, RebalanceNeeded, Remark
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from klamm.protocol.schema.sync_group_response import SyncGroupResponse
from klamm.protocol.types import Millis

__all__ = [
    "answer_parked_requests",
    "answer_syncs",
    "complete_join",
    "join_response",
    "maybe_complete_join",
    "on_batch_timer",
    "on_join_timer",
    "prepare_or_complete",
    "prepare_rebalance",
    "rebalance_soon",
]


def rebalance_soon(
    group: ClassicGroup, causes: Sequence[RebalanceNeeded], config: GroupCoordinatorConfig, result: Result, now: Millis
) -> None:
    """Starts a rebalance because members have joined or left; a stable group first waits for the batch time, if any.

    Until then the group stays stable: the other members are not told and keep reading, joins of new members are parked,
    and leaving members are removed. A member that joins again starts the rebalance at once, as it has stopped reading.
    """
    if group.state is GroupState.STABLE and config.rebalance_batch_ms and group.members:
        result.events.extend(causes)
        if not group.is_batching:
            group.is_batching = True
            result.arm(batch_timer(group.group_id), config.rebalance_batch_ms)
        return
    prepare_or_complete(group, causes, config, result, now)


def on_batch_timer(group: ClassicGroup, config: GroupCoordinatorConfig, result: Result, now: Millis) -> None:
    """Starts the rebalance at the end of the batch time."""
    if group.is_batching:
        prepare_rebalance(group, [], config, result, now)


def prepare_or_complete(
    group: ClassicGroup, causes: Sequence[RebalanceNeeded], config: GroupCoordinatorConfig, result: Result, now: Millis
) -> None:
    """Starts a rebalance; if one is gathering members already, ends the gathering if all have joined."""
    if group.state is GroupState.PREPARING_REBALANCE:
        result.events.extend(causes)
        maybe_complete_join(group, result, now)
    else:
        prepare_rebalance(group, causes, config, result, now)


def prepare_rebalance(
    group: ClassicGroup, causes: Sequence[RebalanceNeeded], config: GroupCoordinatorConfig, result: Result, now: Millis
) -> None:
    """Starts a rebalance: all members must join again. The group is Empty, CompletingRebalance or Stable."""
    result.events.extend(causes)
    if group.is_batching:
        group.is_batching = False
        result.cancel(batch_timer(group.group_id))
    if group.state is GroupState.COMPLETING_REBALANCE:
        drop_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS, result)
    group.pending_sync.clear()
    result.cancel(sync_timer(group.group_id))
    is_initial = group.state is GroupState.EMPTY
    group.move(GroupEvent.REBALANCE_STARTED, now)
    if is_initial:
        group.initial_delay_ms = config.initial_rebalance_delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - group.initial_delay_ms, 0)
        result.arm(join_timer(group.group_id), group.initial_delay_ms)
    elif group.has_all_members_joined:
        complete_join(group, result, now)
    else:
        result.arm(join_timer(group.group_id), group.rebalance_timeout_ms)


def maybe_complete_join(group: ClassicGroup, result: Result, now: Millis) -> None:
    """Ends the gathering if all members have joined; in an initial rebalance only its delay ends it."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.previous_state is not GroupState.EMPTY
        and group.has_all_members_joined
    ):
        complete_join(group, result, now)


def on_join_timer(group: ClassicGroup, config: GroupCoordinatorConfig, result: Result, now: Millis) -> None:
    """Ends the gathering of members, or extends it if new members have joined during an initial rebalance."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    remaining_ms = group.initial_remaining_ms
    if remaining_ms is not None and group.new_member_added and remaining_ms != 0:
        group.new_member_added = False
        delay_ms = min(config.initial_rebalance_delay_ms, remaining_ms)
        group.initial_remaining_ms = max(remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        result.arm(join_timer(group.group_id), delay_ms)
    else:
        complete_join(group, result, now)


def complete_join(group: ClassicGroup, result: Result, now: Millis) -> None:
    """Ends the gathering: removes dynamic members that did not join, raises the generation, answers all joins.

    Without members the group becomes Empty, which is written to the log. If members are left but none of them has
    joined (they are static), the wait starts again until their sessions expire.
    """
    result.cancel(join_timer(group.group_id))
    group.initial_remaining_ms = None
    missing = [member for member in group.members.values() if member.join_ticket is None and not member.is_static]
    for member in missing:
        group.remove(member.member_id)
        result.cancel(member.session_timer)
        died_at = Millis(now - group.rebalance_timeout_ms)
        detail = "it did not join again in time"
        result.events.extend(lost(group, member, Cause.REBALANCE_TIMED_OUT, detail, now, died_at=died_at))
    if group.members and not group.elect_joined_leader():
        result.arm(join_timer(group.group_id), group.rebalance_timeout_ms)
        return
    group.start_generation(now)
    if not group.members:
        result.records.append(group_metadata_record(group.group_id, group.metadata_with({})))
        result.events += [new_generation(group, now), stable(group, now)]
        result.on_failure = lambda code, now: _only_events(result)
        return
    result.events.append(new_generation(group, now))
    result.events.append(Remark(group.group_id, f"its protocol is {group.protocol_name}, its leader {group.leader_id}"))
    for member in group.members.values():
        member.is_new = False
    for member in group.members.values():
        ticket = group.park_join(member, None)
        if ticket is not None:
            result.reply(ticket, join_response(group, member))
        result.arm(member.session_timer, member.session_timeout_ms)
        group.pending_sync.add(member.member_id)
    result.arm(sync_timer(group.group_id), group.rebalance_timeout_ms)


def _only_events(result: Result) -> Result:
    """Returns only the events: the group is empty even if the append fails; the next coordinator finds out itself."""
    told = Result()
    told.events.extend(result.events)
    return told


def join_response(group: ClassicGroup, member: Member, *, skip_assignment: bool = False) -> JoinGroupResponse:
    """Returns a member's response for the present generation; only the leader's lists the members."""
    is_leader = group.leader_id == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                metadata=each.metadata(group.protocol_name),
            )
            for each in group.members.values()
            if not each.is_new
        ]
        if is_leader
        else [],
    )


def drop_assignments(group: ClassicGroup, code: ErrorCode, result: Result) -> None:
    """Clears all assignments and answers the parked SyncGroup requests with the error."""
    for member in group.members.values():
        member.kept_assignment = member.assignment or member.kept_assignment
        member.assignment = b""
    answer_syncs(group, code, result)


def answer_syncs(group: ClassicGroup, code: ErrorCode, result: Result) -> None:
    """Answers all parked SyncGroup requests, with the assignments if there is no error, and restarts the sessions.

    A session that expired while its member waited has no timer any more, so each of these members gets a new one.
    """
    is_error = code is not ErrorCode.NONE
    for member in group.members.values():
        if member.sync_ticket is not None:
            response = SyncGroupResponse(
                error_code=code,
                protocol_type=None if is_error else group.protocol_type,
                protocol_name=None if is_error else group.protocol_name,
                assignment=member.assignment,
            )
            result.reply(member.sync_ticket, response)
            member.sync_ticket = None
            result.arm(member.session_timer, member.session_timeout_ms)


def answer_parked_requests(group: ClassicGroup, member: Member, code: ErrorCode, result: Result) -> None:
    """Answers a member's parked requests with an error, for example before it is removed or fenced."""
    ticket = group.park_join(member, None)
    if ticket is not None:
        member_id = "" if code is ErrorCode.UNKNOWN_MEMBER_ID else member.member_id
        result.reply(ticket, JoinGroupResponse(member_id=member_id, error_code=code))
    if member.sync_ticket is not None:
        result.reply(member.sync_ticket, SyncGroupResponse(error_code=code))
        member.sync_ticket = None

"""How a rebalance of a classic group begins, gathers its members, and raises the generation.

A rebalance has two halves. In PreparingRebalance every member's JoinGroup is parked until all have joined or the time
is up; then the generation rises, everybody learns of it, and the group is CompletingRebalance until the leader's
SyncGroup brings the assignments (`syncs.py`). The first rebalance of an empty group waits a little for more members,
since each newcomer would cost another one. A stable group may be set to wait before it begins, for the same reason;
Kafka has no such setting.

The functions write what follows into the result they are given. After Apache Kafka's `GroupMetadataManager`:
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
    """Members have come or gone: have a rebalance answer it, and with it who comes or goes within the batch time.

    In that time the group is stable: the other members are told nothing and go on reading, the join of a newcomer is
    parked, and who has gone is gone. A member that joins again begins the rebalance at once, since it has stopped.
    """
    if group.state is GroupState.STABLE and config.rebalance_batch_ms and group.members:
        result.events.extend(causes)
        if not group.is_batching:
            group.is_batching = True
            result.arm(batch_timer(group.group_id), config.rebalance_batch_ms)
        return
    prepare_or_complete(group, causes, config, result, now)


def on_batch_timer(group: ClassicGroup, config: GroupCoordinatorConfig, result: Result, now: Millis) -> None:
    """Everybody who came or went in time is part of the rebalance that begins now."""
    if group.is_batching:
        prepare_rebalance(group, [], config, result, now)


def prepare_or_complete(
    group: ClassicGroup, causes: Sequence[RebalanceNeeded], config: GroupCoordinatorConfig, result: Result, now: Millis
) -> None:
    """Begin a rebalance; if one is gathering members already, see whether it has them all."""
    if group.state is GroupState.PREPARING_REBALANCE:
        result.events.extend(causes)
        maybe_complete_join(group, result, now)
    else:
        prepare_rebalance(group, causes, config, result, now)


def prepare_rebalance(
    group: ClassicGroup, causes: Sequence[RebalanceNeeded], config: GroupCoordinatorConfig, result: Result, now: Millis
) -> None:
    """Begin a rebalance: everybody has to join again. The group is Empty, CompletingRebalance or Stable."""
    result.events.extend(causes)
    if group.is_batching:
        group.is_batching = False
        result.cancel(batch_timer(group.group_id))
    if group.state is GroupState.COMPLETING_REBALANCE:
        drop_assignments(group, ErrorCode.rebalance_in_progress, result)
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
    """End the gathering if everybody has joined; an initial rebalance ends with its delay only."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.previous_state is not GroupState.EMPTY
        and group.has_all_members_joined
    ):
        complete_join(group, result, now)


def on_join_timer(group: ClassicGroup, config: GroupCoordinatorConfig, result: Result, now: Millis) -> None:
    """The wait for members is over, unless it is an initial one that newcomers have earned an extension."""
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
    """End the gathering: drop the dynamic members that did not join, raise the generation, tell everybody.

    Without any member left the group becomes Empty, which the log must know. If members are left and none of them has
    joined (they are static), the wait begins anew: their session timeouts will clear the way.
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
    """What happened has happened, though the log did not hear of it: the next coordinator will find out by itself."""
    told = Result()
    told.events.extend(result.events)
    return told


def join_response(group: ClassicGroup, member: Member, *, skip_assignment: bool = False) -> JoinGroupResponse:
    """What a member learns of the present generation; only the leader learns of the others."""
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
    """Take the assignments back and let those who wait for one know why."""
    for member in group.members.values():
        member.assignment = b""
    answer_syncs(group, code, result)


def answer_syncs(group: ClassicGroup, code: ErrorCode, result: Result) -> None:
    """Answer all parked SyncGroup requests, with the assignments if there is no error; sessions start anew.

    A session that ran out while its member waited has no timer any more, so each one gets a new one here.
    """
    is_error = code is not ErrorCode.none
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
    """Send a member's parked requests away, before it leaves the group or is fenced."""
    ticket = group.park_join(member, None)
    if ticket is not None:
        member_id = "" if code is ErrorCode.unknown_member_id else member.member_id
        result.reply(ticket, JoinGroupResponse(member_id=member_id, error_code=code))
    if member.sync_ticket is not None:
        result.reply(member.sync_ticket, SyncGroupResponse(error_code=code))
        member.sync_ticket = None

"""The decision on a SyncGroup request, and on one that does not come in time.

The leader's request brings the assignments, which are passed on undecoded. They are written to the log first. Once they
are committed, the group becomes Stable and the members get them. After Apache Kafka's
`GroupMetadataManager.classicGroupSync`.
"""

from __future__ import annotations

from klamm.core.coordinator.append_errors import coordinator_error
from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.group.classic.classic_events import assigned, lost, needed, stable, target_chosen
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.classic_groups import ClassicGroups
from klamm.core.group.classic.group_metadata import group_metadata_record
from klamm.core.group.classic.group_state import GroupEvent, GroupState
from klamm.core.group.classic.member import Member
from klamm.core.group.classic.rebalance import answer_syncs, drop_assignments, prepare_or_complete, prepare_rebalance
from klamm.core.group.classic.timers import sync_timer
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.events import Cause
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.sync_group_response import SyncGroupResponse
from klamm.protocol.types import Millis

__all__ = ["on_sync_timer", "sync_group"]


def sync_group(
    groups: ClassicGroups, config: GroupCoordinatorConfig, request: SyncGroupRequest, ticket: Ticket, now: Millis
) -> Result:
    """Answers with the member's assignment, or parks the request until the leader's assignment is committed."""
    result = Result()
    group = groups.find(request.group_id)
    try:
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = _check(group, request)
    except KafkaError as error:
        result.reply(ticket, SyncGroupResponse(error_code=error.code))
        return result
    was_awaited = member.member_id in group.pending_sync
    group.pending_sync.discard(member.member_id)
    if not group.pending_sync:
        result.cancel(sync_timer(group.group_id))
    if group.state is GroupState.STABLE:
        response = SyncGroupResponse(
            protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
        )
        result.reply(ticket, response)
        if was_awaited:
            result.events.append(assigned(group, member, now))
        return result
    if member.sync_ticket is not None:
        # The client gave up on an earlier request; if it still reads that response, it must join again.
        result.reply(member.sync_ticket, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.sync_ticket = ticket
    if group.leader_id == member.member_id:
        _persist(groups, group, config, request, result)
    return result


def _check(group: ClassicGroup, request: SyncGroupRequest) -> Member:
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member


def _differs(asked: str | None, own: str | None) -> bool:
    return asked is not None and own is not None and asked != own


def _persist(
    groups: ClassicGroups,
    group: ClassicGroup,
    config: GroupCoordinatorConfig,
    request: SyncGroupRequest,
    result: Result,
) -> None:
    assignments = {each.member_id: each.assignment for each in request.assignments}
    generation, leader_id = group.generation, request.member_id

    def is_outdated() -> bool:
        # Members may have joined or left before the record was committed, or the group may be a consumer group now.
        return (
            group.state is not GroupState.COMPLETING_REBALANCE
            or group.generation != generation
            or groups.find(group.group_id) is not group
        )

    def on_commit(now: Millis) -> Result:
        result = Result()
        if is_outdated():
            return result
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            member.kept_assignment = b""
        result.events.append(target_chosen(group, now))
        result.events.extend(
            assigned(group, each, now) for each in group.members.values() if each.sync_ticket is not None
        )
        answer_syncs(group, ErrorCode.NONE, result)
        group.move(GroupEvent.ASSIGNMENT_COMMITTED, now)
        result.events.append(stable(group, now))
        return result

    def on_failure(code: ErrorCode, now: Millis) -> Result:
        result = Result()
        if is_outdated():
            return result
        drop_assignments(group, coordinator_error(code), result)
        detail = f"the assignment of leader {leader_id} could not be stored: {code.name.lower()}"
        cause = needed(group, Cause.ASSIGNMENT_FAILED, leader_id, detail, now)
        prepare_or_complete(group, [cause], config, result, now)
        return result

    result.records.append(group_metadata_record(group.group_id, group.metadata_with(assignments)))
    result.on_commit = on_commit
    result.on_failure = on_failure


def on_sync_timer(group: ClassicGroup, config: GroupCoordinatorConfig, result: Result, now: Millis) -> None:
    """Removes members that have joined but sent no SyncGroup in time, and starts a rebalance."""
    if not group.pending_sync or not group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return
    died_at = Millis(now - group.rebalance_timeout_ms)
    causes = []
    for member_id in sorted(group.pending_sync):
        member = group.remove(member_id)
        if member is not None:
            result.cancel(member.session_timer)
            detail = "it did not ask for its assignment"
            event, cause = lost(group, member, Cause.REBALANCE_TIMED_OUT, detail, now, died_at=died_at)
            result.events.append(event)
            causes.append(cause)
    prepare_rebalance(group, causes, config, result, now)

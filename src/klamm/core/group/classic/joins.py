"""The decision on a JoinGroup request.

Since version 4 a dynamic member joins twice, the second time with the member id from the first response (KIP-394).
Version 5 adds static members (KIP-345). Version 9 lets a returning static leader skip the assignment (KIP-814). After
Apache Kafka's `GroupMetadataManager.classicGroupJoin` and what it calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from klamm.core.coordinator.append_errors import coordinator_error
from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.coordinator.shard_contract import ClientContext, Result, Ticket
from klamm.core.group.classic.classic_events import assigned, is_crash_looping, joined, needed, paused, removed, stable
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.classic_groups import ClassicGroups
from klamm.core.group.classic.group_metadata import NO_METADATA, group_metadata_record
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.member import Member, Protocols, protocols_of
from klamm.core.group.classic.rebalance import (
    answer_parked_requests,
    join_response,
    prepare_or_complete,
    prepare_rebalance,
    rebalance_soon,
)
from klamm.core.group.classic.rejoins import REJOIN_DETAILS, rejoin_cause, topic_change
from klamm.core.group.classic.timers import session_timer
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.events import Cause, RebalanceNeeded
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.types import Millis

__all__ = ["join_group"]

_MEMBER_ID_REQUIRED_FROM = 4
_SKIP_ASSIGNMENT_FROM = 9


def join_group(
    groups: ClassicGroups,
    topics: ClusterTopics,
    config: GroupCoordinatorConfig,
    request: JoinGroupRequest,
    context: ClientContext,
    *,
    ticket: Ticket,
    now: Millis,
    new_member_id: str,
) -> Result:
    """Decides on JoinGroup; `new_member_id` is for a member that has none yet.

    The first request without a member id creates the group, with a record of its own.
    """
    return _Join(groups, topics, config, request, context, ticket=ticket, now=now, new_member_id=new_member_id).decide()


class _Join:
    """The decision on one JoinGroup request; `decide` makes it."""

    __slots__ = (
        "config",
        "context",
        "groups",
        "new_member_id",
        "now",
        "protocols",
        "request",
        "result",
        "ticket",
        "topics",
    )

    def __init__(
        self,
        groups: ClassicGroups,
        topics: ClusterTopics,
        config: GroupCoordinatorConfig,
        request: JoinGroupRequest,
        context: ClientContext,
        *,
        ticket: Ticket,
        now: Millis,
        new_member_id: str,
    ) -> None:
        self.groups = groups
        self.topics = topics
        self.config = config
        self.request = request
        self.context = context
        self.ticket = ticket
        self.now = now
        self.new_member_id = new_member_id
        self.protocols = protocols_of(request)
        self.result = Result()

    def decide(self) -> Result:
        """Decides on the request."""
        request = self.request
        group = self.groups.find(request.group_id)
        if group is not None:
            self._join(group)
            return self.result
        if request.member_id:
            self._refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return self.result
        new_group = ClassicGroup(request.group_id, self.now)
        self._join(new_group)
        self.result.records = [
            group_metadata_record(request.group_id, NO_METADATA._replace(state_timestamp_ms=self.now))
        ]
        self.result.on_append = lambda: self.groups.install(new_group)
        return self.result

    def _join(self, group: ClassicGroup) -> None:
        member_id = self.request.member_id
        if not self._has_room(group):
            surplus = group.remove(member_id)
            if surplus is not None:
                self.result.cancel(surplus.session_timer)
                detail = f"there is no room for more than {self.config.max_size} members"
                self.result.events.append(removed(group, member_id, Cause.GROUP_TOO_LARGE, detail, self.now))
                self.result.events.append(self._cause(group, Cause.GROUP_TOO_LARGE, member_id, detail))
            self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        elif not group.supports(self.request.protocol_type, [name for name, _ in self.protocols]):
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif not member_id:
            self._join_without_id(group)
        elif member_id in group.pending_join:
            self._join_pending(group)
        else:
            self._join_again(group)

    def _has_room(self, group: ClassicGroup) -> bool:
        member = group.members.get(self.request.member_id)
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            # Only joined members count: if the limit was lowered, the last ones to join again must go.
            return (member is not None and member.join_ticket is not None) or group.awaiting_join < self.config.max_size
        return member is not None or len(group.members) < self.config.max_size

    # Members without an id

    def _join_without_id(self, group: ClassicGroup) -> None:
        group_instance_id = self.request.group_instance_id
        if group_instance_id is not None:
            old_member_id = group.static_members.get(group_instance_id)
            if old_member_id is None:
                self._add_member(group, self.new_member_id)
            else:
                self._replace_static_member(group, old_member_id)
        elif self.context.api_version >= _MEMBER_ID_REQUIRED_FROM:
            group.pending_join.add(self.new_member_id)
            self.result.arm(session_timer(group.group_id, self.new_member_id), self.request.session_timeout_ms)
            self._refuse(ErrorCode.MEMBER_ID_REQUIRED, self.new_member_id)
        else:
            self._add_member(group, self.new_member_id)

    def _join_pending(self, group: ClassicGroup) -> None:
        if self.request.group_instance_id is not None:
            # Only dynamic members get a member id before they join.
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a member id that was handed out cannot become static")
        self._add_member(group, self.request.member_id)

    def _add_member(self, group: ClassicGroup, member_id: str) -> None:
        request = self.request
        member = Member(
            group_id=group.group_id,
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=self.context.client_id,
            client_host=self.context.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=self.protocols,
            joined_at=self.now,
        )
        member.is_new = True
        member.join_ticket = self.ticket
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member, request.protocol_type)
        # A new member can't send heartbeats, so a dead client looks like one that waits. A dead one would delay the
        # next rebalance, and a live one retries: so its request has a time limit.
        self.result.arm(member.session_timer, self.config.new_member_join_timeout_ms)
        self.result.events.append(joined(group, member, self.now))
        detail = f"member {member_id} joined"
        if member.is_static:
            detail = f"{detail} as {member.group_instance_id}"
        is_looping = is_crash_looping(group, member, self.now)
        if is_looping:
            detail = f"{detail}; it is in a crash loop"
        cause = self._cause(group, Cause.MEMBER_JOINED, member_id, detail, crash_loop=is_looping)
        rebalance_soon(group, [cause], self.config, self.result, self.now)

    # Members with an id

    def _join_again(self, group: ClassicGroup) -> None:
        try:
            member = group.check_member(self.request.member_id, self.request.group_instance_id)
        except KafkaError as error:
            self._refuse(error.code, self.request.member_id)
            return
        same_metadata = member.protocols == self.protocols
        is_leader = group.leader_id == member.member_id
        if group.state is GroupState.PREPARING_REBALANCE:
            # The member was told to join; only a changed subscription or assignor is a new cause.
            changed = rejoin_cause(member, self.protocols, is_leader=False)
            is_news = changed in (Cause.SUBSCRIPTION_CHANGED, Cause.ASSIGNOR_CHANGED)
            self._update_member(group, member, changed if is_news else None)
        elif member.is_new:
            # The rebalance that the member waits for has not begun yet.
            group.update(member, self.protocols, self.request.rebalance_timeout_ms, self.request.session_timeout_ms)
            self._park(group, member)
        elif same_metadata and (group.state is GroupState.COMPLETING_REBALANCE or not is_leader):
            # The member may have missed its generation; with this response it can send SyncGroup.
            self.result.reply(self.ticket, join_response(group, member))
        elif same_metadata:
            # A leader joins again because of something that the metadata does not show, such as a topic that grew.
            self._update_member(group, member, Cause.LEADER_REJOINED)
        else:
            self._update_member(group, member, rejoin_cause(member, self.protocols, is_leader=is_leader))

    def _update_member(self, group: ClassicGroup, member: Member, cause: Cause | None) -> None:
        request = self.request
        detail = "" if cause is None else f"member {member.member_id} {REJOIN_DETAILS[cause]}"
        if cause in (Cause.LEADER_REJOINED, Cause.MEMBER_REJOINED):
            # The request may give no reason: newer clients do, others may have seen a change of their topics.
            change = topic_change(group, self.topics)
            if change is not None:
                cause, seen = change
                detail = f"{detail}: {seen}"
        group.update(member, self.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        self._park(group, member)
        causes = []
        if cause is not None:
            causes.append(self._cause(group, cause, member.member_id, detail))
        self._rebalance(group, causes)

    def _park(self, group: ClassicGroup, member: Member) -> None:
        earlier = group.park_join(member, self.ticket)
        if earlier is None:
            self.result.events.append(paused(group, member, self.now))
        else:
            # The client gave up on an earlier request; if it still reads that response, it must join again.
            response = JoinGroupResponse(member_id=member.member_id, error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            self.result.reply(earlier, response)

    # Static members that return

    def _replace_static_member(self, group: ClassicGroup, old_member_id: str) -> None:
        request = self.request
        old_leader_id = group.leader_id
        old_member = group.members[old_member_id]
        old = (old_member.protocols, old_member.rebalance_timeout_ms, old_member.session_timeout_ms)
        answer_parked_requests(group, old_member, ErrorCode.FENCED_INSTANCE_ID, self.result)
        self.result.cancel(old_member.session_timer)
        member = group.rename_static_member(old_member_id, self.new_member_id, self.now)
        detail = f"{request.group_instance_id} came back as {member.member_id}"
        self.result.events.append(removed(group, old_member_id, Cause.STATIC_MEMBER_RETURNED, detail, self.now))
        self.result.events.append(joined(group, member, self.now))
        cause = self._cause(group, Cause.STATIC_MEMBER_RETURNED, member.member_id, f"static member {detail}")
        group.pending_sync.discard(old_member_id)
        self.result.arm(member.session_timer, member.session_timeout_ms)
        group.update(member, self.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        self.result.events.append(paused(group, member, self.now))
        group.park_join(member, self.ticket)
        if group.state is GroupState.PREPARING_REBALANCE:
            self._rebalance(group, [cause])
        elif (
            group.state is GroupState.COMPLETING_REBALANCE
            or group.is_batching
            or group.select_protocol() != group.protocol_name
        ):
            # In CompletingRebalance the leader may already assign to the old member id, and the new one would get
            # nothing. If a rebalance is due anyway, it starts now.
            prepare_rebalance(group, [cause], self.config, self.result, self.now)
        else:
            self._persist_static_member(group, member, old_member_id, old_leader_id, old)

    def _persist_static_member(
        self,
        group: ClassicGroup,
        member: Member,
        old_member_id: str,
        old_leader_id: str | None,
        old: tuple[Protocols, int, int],
    ) -> None:
        """Writes the new member id and answers without a rebalance, since nothing else changes."""
        ticket = self.ticket
        changed_hands = list(self.result.events)
        knows_skip_assignment = self.context.api_version >= _SKIP_ASSIGNMENT_FROM

        def on_commit(now: Millis) -> Result:
            result = Result()
            if group.state is not GroupState.STABLE or member.join_ticket != ticket:
                return result  # A rebalance has begun meanwhile and will answer the parked request.
            group.park_join(member, None)
            is_leader = group.leader_id == member.member_id
            response = join_response(group, member, skip_assignment=is_leader and knows_skip_assignment)
            if not knows_skip_assignment:
                # The member must not see itself as the leader, or it would assign again.
                response.leader = old_leader_id or ""
                response.members = []
            result.reply(ticket, response)
            result.events += [assigned(group, member, now), stable(group, now)]
            return result

        def on_failure(code: ErrorCode, now: Millis) -> Result:
            result = Result()
            response = join_response(group, member)
            response.leader = old_leader_id or ""
            response.members = []
            response.member_id = ""
            response.error_code = coordinator_error(code)
            result.reply(ticket, response)
            if group.members.get(member.member_id) is member and member.join_ticket == ticket:
                group.park_join(member, None)
                group.update(member, *old)
                result.cancel(member.session_timer)
                restored = group.rename_static_member(member.member_id, old_member_id, member.joined_at)
                result.arm(restored.session_timer, restored.session_timeout_ms)
            else:
                # A rebalance has begun meanwhile: the member keeps its new id.
                result.events.extend(changed_hands)
            return result

        assignments = {each.member_id: each.assignment for each in group.members.values()}
        self.result.records.append(group_metadata_record(group.group_id, group.metadata_with(assignments)))
        self.result.on_commit = on_commit
        self.result.on_failure = on_failure

    # Outcomes

    def _rebalance(self, group: ClassicGroup, causes: Sequence[RebalanceNeeded]) -> None:
        prepare_or_complete(group, causes, self.config, self.result, self.now)

    def _cause(
        self, group: ClassicGroup, cause: Cause, member_id: str, detail: str, *, crash_loop: bool = False
    ) -> RebalanceNeeded:
        if self.request.reason:
            detail = f"{detail}; the client says: {self.request.reason}"
        return needed(group, cause, member_id, detail, self.now, crash_loop=crash_loop)

    def _refuse(self, code: ErrorCode, member_id: str) -> None:
        self.result.reply(self.ticket, JoinGroupResponse(member_id=member_id, error_code=code))

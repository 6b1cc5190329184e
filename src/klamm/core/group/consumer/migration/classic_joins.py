"""A JoinGroup request to a consumer group, from a member that uses the classic protocol (KIP-848).

It takes the same steps as a heartbeat; the subscription and the owned partitions come from the member's metadata. No
request is parked. The response gives the member epoch as the generation and names no leader; the member learns its
assignment by SyncGroup. After Apache Kafka's `GroupMetadataManager.classicGroupJoinToConsumerGroup`.
"""

from __future__ import annotations

from klamm.core.coordinator.shard_contract import ClientContext, Result, Ticket
from klamm.core.group.classic.embedded_protocol import CONSUMER_PROTOCOL_TYPE
from klamm.core.group.classic.member import protocols_of
from klamm.core.group.consumer.assignor_input import Change
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_groups import Decision
from klamm.core.group.consumer.group_epoch import announce_stability
from klamm.core.group.consumer.member import ClassicMetadata, ConsumerGroupMember
from klamm.core.group.consumer.member_removal import check_static_member
from klamm.core.group.consumer.member_update import (
    Subject,
    check_room,
    choose_target,
    find_or_make,
    reconcile,
    take_place,
    watch_on_failure,
    write_epoch,
    write_member,
)
from klamm.core.group.consumer.migration.downgrade import downgrade, may_downgrade_by_replacement
from klamm.core.group.consumer.migration.embedded_assignment import owned_partitions, protocol_name, subscription
from klamm.core.group.consumer.regexes import RegexChange, update_regexes
from klamm.core.group.consumer.timers import join_timer, sync_timer
from klamm.core.group.follow_ups import if_refused
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.schema.join_group_response import JoinGroupResponse

__all__ = ["join_consumer_group"]

_MEMBER_ID_REQUIRED_FROM = 4


def join_consumer_group(
    decision: Decision, group: ConsumerGroup, request: JoinGroupRequest, context: ClientContext, ticket: Ticket
) -> None:
    """Decides on JoinGroup for a consumer group with members.

    Raises GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or
    UNKNOWN_SERVER_ERROR.
    """
    _ClassicJoin(decision, group, request, context, ticket).decide()


class _ClassicJoin:
    """The decision on one JoinGroup request to a consumer group with members; `decide` makes it."""

    __slots__ = ("context", "decision", "group", "protocols", "request", "ticket")

    def __init__(
        self,
        decision: Decision,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        context: ClientContext,
        ticket: Ticket,
    ) -> None:
        self.decision = decision
        self.group = group
        self.request = request
        self.context = context
        self.ticket = ticket
        self.protocols = protocols_of(request)

    def decide(self) -> None:
        """Writes the outcome into the result."""
        request, result = self.request, self.decision.result
        member_id = request.member_id or self.decision.groups.new_member_id()
        check_room(self.decision, self.group, member_id)
        if not self._fits():
            text = f"Member {member_id}'s protocols are not supported."
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
        is_dynamic = request.group_instance_id is None
        if is_dynamic and not request.member_id and self.context.api_version >= _MEMBER_ID_REQUIRED_FROM:
            response = JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED)
            result.reply(self.ticket, response)
            return
        decoded = subscription(self.protocols)
        present = self.group.static_member(request.group_instance_id)
        subject = self._find_member(member_id)
        new = self._updated(subject.member, decoded)
        names_changed = write_member(self.decision, self.group, subject, new)
        regex_change = update_regexes(self.decision, self.group, subject.member, new)
        has_changed = names_changed or regex_change is not RegexChange.NONE
        epoch, subscriptions = write_epoch(self.decision, self.group, subject, new, has_changed)
        if present is not None and may_downgrade_by_replacement(self.decision.groups, self.group, present):
            joined = self._downgrade(new, decoded, epoch, has_changed)
        else:
            change = Change(subject.member, new, None if subject.replaced is None else subject.replaced.member_id)
            joined = reconcile(
                self.decision,
                self.group,
                new,
                towards=choose_target(self.decision, self.group, change, epoch=epoch, subscriptions=subscriptions),
                has_subscription_changed=has_changed,
                owned=owned_partitions(self.decision.groups.topics, decoded),
            )
            announce_stability(self.decision, self.group.group_id)
            self._move_timers(joined)
        response = JoinGroupResponse(
            member_id=joined.member_id,
            generation_id=joined.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=protocol_name(joined),
        )
        result.reply(self.ticket, response)

    def _fits(self) -> bool:
        """Returns whether all members of the classic protocol support one of the member's protocols."""
        group = self.group
        return self.request.protocol_type == CONSUMER_PROTOCOL_TYPE and any(
            group.classic_protocol_counts.get(name, 0) == group.classic_size for name, _ in self.protocols
        )

    def _find_member(self, member_id: str) -> Subject:
        instance_id = self.request.group_instance_id
        if instance_id is None:
            return find_or_make(self.group, member_id)
        if self.request.member_id:
            return Subject(check_static_member(self.group, member_id, instance_id), None, False)
        present = self.group.static_member(instance_id)
        if present is None:
            return find_or_make(self.group, member_id)
        return take_place(self.decision, self.group, present, member_id)

    def _updated(self, member: ConsumerGroupMember, decoded: ConsumerProtocolSubscription) -> ConsumerGroupMember:
        request = self.request
        timeout_ms = request.rebalance_timeout_ms
        return member._replace(
            instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
            rack_id=decoded.rack_id or member.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            subscribed_topic_names=frozenset(decoded.topics),
            subscribed_topic_regex="",
            client_id=self.context.client_id,
            client_host=self.context.client_host,
            classic=ClassicMetadata(request.session_timeout_ms, self.protocols),
        )

    def _downgrade(
        self, new: ConsumerGroupMember, decoded: ConsumerProtocolSubscription, epoch: int, has_changed: bool
    ) -> ConsumerGroupMember:
        group = self.group
        is_stale = group.target_epoch < epoch
        joined = new
        if not is_stale:
            joined = reconcile(
                self.decision,
                group,
                new,
                towards=(group.target_epoch, group.target_of(new.member_id, new.instance_id)),
                has_subscription_changed=has_changed,
                owned=owned_partitions(self.decision.groups.topics, decoded),
            )
        reason = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
        # In a stable classic group no member would learn of the steps that are still to come.
        is_on_its_way = is_stale or any(
            not member.is_reconciled_to(group.target_epoch)
            for member in (*group.members.values(), joined)
            if member.instance_id != joined.instance_id or member is joined
        )
        downgrade(self.decision, group, joining=joined, rebalance=reason if is_on_its_way else None)
        return joined

    def _move_timers(self, member: ConsumerGroupMember) -> None:
        """Replaces the member's join timer by its sync timer, within which it must send SyncGroup."""
        groups, result, _ = self.decision
        key = (self.group.group_id, member.member_id)
        was_awaited, had_to_sync = key in groups.awaiting_join, key in groups.awaiting_sync
        groups.awaiting_join.discard(key)
        groups.awaiting_sync.add(key)
        result.cancel(join_timer(*key))
        groups.watch(self.group.group_id, member, result)

        def wait_again(again: Result) -> None:
            if not had_to_sync:
                groups.awaiting_sync.discard(key)
                again.cancel(sync_timer(*key))
            if was_awaited:
                groups.awaiting_join.add(key)
                again.arm(join_timer(*key), self.request.rebalance_timeout_ms)

        watch_on_failure(self.decision, self.group, member.member_id)
        if_refused(result, wait_again)

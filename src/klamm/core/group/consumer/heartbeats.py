"""The decision on a ConsumerGroupHeartbeat request, the one API with which members join, stay and leave (KIP-848).

A heartbeat that changes nothing is answered at once (`fast_heartbeat.py`). Any other takes three steps. First the
member is created or changed, and the group epoch is raised if the subscriptions or topics have changed. Then a new
target is made if the group epoch has risen. Last, the member takes a step towards the target. After Apache Kafka's
`GroupMetadataManager.consumerGroupHeartbeat`.
"""

from __future__ import annotations

from collections.abc import Sequence

from klamm.core.coordinator.shard_contract import ClientContext, Result, Ticket
from klamm.core.group.consumer.assignor_input import Change
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_groups import ConsumerGroups, Decision
from klamm.core.group.consumer.fast_heartbeat import answer_if_unchanged
from klamm.core.group.consumer.group_epoch import announce_stability
from klamm.core.group.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Assigned,
    ConsumerGroupMember,
)
from klamm.core.group.consumer.member_removal import check_static_member, expect_member, leave
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
from klamm.core.group.consumer.migration.upgrade import is_settled, upgrade
from klamm.core.group.consumer.regexes import RegexChange, update_regexes
from klamm.core.group.consumer.timers import session_timer
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_request import TopicPartitions as OwnedPartitions
from klamm.protocol.schema.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from klamm.protocol.types import Millis, TopicId

__all__ = ["consumer_group_heartbeat"]


def consumer_group_heartbeat(
    groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest, context: ClientContext, ticket: Ticket, now: Millis
) -> Result:
    """Answers a member with its epoch and, if the member may not know it, its assignment.

    Errors carry a message in the response, so they are returned as responses, not raised.
    """
    result = answer_if_unchanged(groups, request, context, ticket, now)
    if result is not None:
        return result
    decision = Decision(groups, Result(), now)
    try:
        if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
            leave(decision, request, ticket)
        else:
            _Heartbeat(decision, request, context, ticket).decide()
    except KafkaError as error:
        return _refused(decision, ticket, error)
    return decision.result


def _refused(decision: Decision, ticket: Ticket, error: KafkaError) -> Result:
    """Returns the error response without records; answers to requests parked in a classic group are kept."""
    given_up = decision.result
    result = Result() if given_up.on_failure is None else given_up.on_failure(error.code, decision.now)
    result.replies += given_up.replies
    result.reply(ticket, ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message))
    return result


class _Heartbeat:
    """The decision on a heartbeat that may change something; `decide` makes it."""

    __slots__ = ("context", "decision", "group", "groups", "is_unsettled", "now", "request", "result", "ticket")

    def __init__(
        self, decision: Decision, request: ConsumerGroupHeartbeatRequest, context: ClientContext, ticket: Ticket
    ) -> None:
        self.decision = decision
        self.groups, self.result, self.now = decision
        self.request = request
        self.context = context
        self.ticket = ticket
        self.is_unsettled = False
        self.group = self._find_group()

    def decide(self) -> None:
        """Writes the outcome into the result.

        Raises GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH,
        UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION or UNKNOWN_SERVER_ERROR.
        """
        decision, group, request, result = self.decision, self.group, self.request, self.result
        check_room(decision, group, request.member_id)
        subject = self._find_member()
        old = subject.member
        new = self._updated(old)
        names_changed = write_member(decision, group, subject, new)
        regex_change = update_regexes(decision, group, old, new)
        # The topics of a regular expression are unknown until it is resolved; the epoch rises then.
        has_changed = names_changed or regex_change is RegexChange.RESOLVED or self.is_unsettled
        epoch, subscriptions = write_epoch(decision, group, subject, new, has_changed)
        change = Change(old, new, None if subject.replaced is None else subject.replaced.member_id)
        reconciled = reconcile(
            decision,
            group,
            new,
            towards=choose_target(decision, group, change, epoch=epoch, subscriptions=subscriptions),
            has_subscription_changed=names_changed or regex_change is not RegexChange.NONE,
            owned=request.topic_partitions,
        )
        settings = self.groups.group_config_of(group.group_id)
        result.arm(session_timer(group.group_id, new.member_id), settings.session_timeout_ms)
        response = ConsumerGroupHeartbeatResponse(
            member_id=reconciled.member_id,
            member_epoch=reconciled.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        is_full = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        if request.member_epoch == JOINING_EPOCH or is_full or old.assigned != reconciled.assigned:
            response.assignment = _assignment(reconciled.assigned)
        result.reply(self.ticket, response)
        if result.records:
            watch_on_failure(decision, group, request.member_id)
            announce_stability(self.decision, group.group_id)

    # The group and the member

    def _find_group(self) -> ConsumerGroup:
        group_id = self.request.group_id
        group = self.groups.get(group_id)
        if group is not None:
            return group
        is_joining = self.request.member_epoch == JOINING_EPOCH
        classic = self.groups.classic_groups.find(group_id) if is_joining else None
        if classic is None and self.groups.group_store.is_known(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if not is_joining:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if classic is not None:
            if not classic.is_empty:
                group = upgrade(self.decision, classic)
                self.is_unsettled = not is_settled(self.groups, group)
                return group
            # An empty classic group is replaced; its committed offsets stay.
            self.result.records += classic.tombstones()
        return self.groups.new_group(group_id)

    def _find_member(self) -> Subject:
        request = self.request
        # Before version 1 the broker chose the member id.
        member_id = request.member_id or self.groups.new_member_id()
        if request.instance_id is None:
            return self._find_dynamic_member(member_id)
        return self._find_static_member(member_id, request.instance_id)

    def _find_dynamic_member(self, member_id: str) -> Subject:
        if self.request.member_epoch != JOINING_EPOCH:
            member = expect_member(self.group, member_id)
            _check_epoch(member, self.request.member_epoch, self.request.topic_partitions)
            return Subject(member, None, False)
        return find_or_make(self.group, member_id)

    def _find_static_member(self, member_id: str, instance_id: str) -> Subject:
        if self.request.member_epoch != JOINING_EPOCH:
            member = check_static_member(self.group, member_id, instance_id)
            _check_epoch(member, self.request.member_epoch, self.request.topic_partitions)
            return Subject(member, None, False)
        present = self.group.static_member(instance_id)
        if present is None:
            return find_or_make(self.group, member_id)
        if present.classic is None and present.member_epoch != STATIC_LEAVING_EPOCH:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {present.member_id} member.",
            )
        return take_place(self.decision, self.group, present, member_id)

    def _updated(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        request = self.request
        names, regex, timeout_ms = (
            request.subscribed_topic_names,
            request.subscribed_topic_regex,
            request.rebalance_timeout_ms,
        )
        return member._replace(
            instance_id=member.instance_id if request.instance_id is None else request.instance_id,
            rack_id=member.rack_id if request.rack_id is None else request.rack_id,
            rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
            server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
            subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
            subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
            client_id=self.context.client_id,
            client_host=self.context.client_host,
            classic=None,
        )


def _check_epoch(member: ConsumerGroupMember, epoch: int, owned: Sequence[OwnedPartitions] | None) -> None:
    """Refuses a member whose epoch is not the one that the group has: it may own partitions of other members.

    The previous epoch is accepted if the member lists only its own partitions: it has missed the last response.
    Raises FENCED_MEMBER_EPOCH.
    """
    if epoch == member.member_epoch:
        return
    if epoch < member.member_epoch and epoch == member.previous_member_epoch and _has_only(owned, member.assigned):
        return
    relation = "greater" if epoch > member.member_epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def _has_only(owned: Sequence[OwnedPartitions] | None, assigned: Assigned) -> bool:
    if owned is None:
        return False
    for topic in owned:
        partitions = assigned.get(TopicId(topic.topic_id))
        if partitions is None or any(partition not in partitions for partition in topic.partitions):
            return False
    return True


def _assignment(assigned: Assigned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=[*sorted(assigned[topic_id])])
            for topic_id in sorted(assigned)
        ]
    )

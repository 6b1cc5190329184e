"""The fast path for heartbeats that change nothing: nearly all of them.

Only very cheap conditions are checked. A heartbeat that fails them may still turn out to change nothing.
"""

from __future__ import annotations

from klamm.core.coordinator.shard_contract import ClientContext, Result, Ticket
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_groups import ConsumerGroups
from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.consumer.regexes import is_refresh_due
from klamm.core.group.consumer.timers import session_timer
from klamm.core.group.group_config import GroupConfig
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.types import Millis

__all__ = ["answer_if_unchanged"]


def answer_if_unchanged(
    groups: ConsumerGroups, request: ConsumerGroupHeartbeatRequest, context: ClientContext, ticket: Ticket, now: Millis
) -> Result | None:
    """Answers a heartbeat that changes nothing and restarts the session; returns None for any other heartbeat.

    The member must be reconciled, its group's target must be up to date, and the request must bring nothing new.
    """
    group = groups.get(request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    if group is None or member is None or not _says_nothing_new(request, context, member):
        return None
    settings = groups.group_config_of(request.group_id)
    reusable_answer = _ReusableAnswer(groups, group, member, settings)
    if not reusable_answer.holds(now):
        return None
    result = Result()
    result.timers.append((session_timer(group.group_id, member.member_id), settings.session_timeout_ms))
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
    )
    result.replies.append((ticket, response))
    result.reusable_answer = reusable_answer
    return result


def _says_nothing_new(
    request: ConsumerGroupHeartbeatRequest, context: ClientContext, member: ConsumerGroupMember
) -> bool:
    return (
        request.member_epoch == member.member_epoch
        and member.state is MemberState.STABLE
        and request.rebalance_timeout_ms == -1
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and (request.instance_id is None or request.instance_id == member.instance_id)
        and context.client_id == member.client_id
        and context.client_host == member.client_host
        and member.classic is None
    )


class _ReusableAnswer:
    """The state that an answer depends on: the member, an immutable value, and the settings of its group."""

    __slots__ = ("group", "group_id", "groups", "member", "member_epoch", "member_id", "settings")

    def __init__(
        self, groups: ConsumerGroups, group: ConsumerGroup, member: ConsumerGroupMember, settings: GroupConfig
    ) -> None:
        self.groups = groups
        self.group = group
        self.group_id = group.group_id
        self.member = member
        self.member_id = member.member_id
        self.member_epoch = member.member_epoch
        self.settings = settings

    def holds(self, now: Millis) -> bool:
        """Returns whether the member is unchanged and reconciled, and its group needs no work."""
        group, groups, group_id = self.group, self.groups, self.group_id
        # Deletions need no check: a group with members is not deleted, and no member joins during a deletion.
        return (
            group.members.get(self.member_id) is self.member
            and self.member_epoch == group.target_epoch >= group.epoch
            and group_id not in groups.outdated
            and groups.store.groups.get(group_id) is group
            and groups.group_config_of(group_id) is self.settings
            and not (group.regex_counts and is_refresh_due(groups, group, group.regex_counts.keys(), now))
        )

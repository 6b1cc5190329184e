"""Downgrade: a consumer group without members of the consumer protocol becomes a classic group again (KIP-848).

Its members, all of the classic protocol, are assigned their parts of the target until they join again. After Apache
Kafka's `validateOnlineDowngradeWithFencedMembers`, `validateOnlineDowngradeWithReplacedMember`, `convertToClassicGroup`
and `ClassicGroup.fromConsumerGroup`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from klamm.core.group.classic.classic_events import needed
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.embedded_protocol import CONSUMER_PROTOCOL_TYPE
from klamm.core.group.classic.group_metadata import group_metadata_record
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.member import Member
from klamm.core.group.classic.rebalance import prepare_rebalance
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_groups import ConsumerGroups, Decision
from klamm.core.group.consumer.member import NO_TARGET, ConsumerGroupMember
from klamm.core.group.consumer.migration.embedded_assignment import assignment_bytes
from klamm.core.group.events import Cause
from klamm.core.group.follow_ups import after_append
from klamm.protocol.types import Generation, Millis

__all__ = ["downgrade", "may_downgrade", "may_downgrade_by_replacement"]

_POLICIES = ("bidirectional", "downgrade")


def may_downgrade(groups: ConsumerGroups, group: ConsumerGroup, leaving: Sequence[ConsumerGroupMember]) -> bool:
    """Returns whether only members of the classic protocol remain, not too many, and the policy allows a downgrade."""
    size = len(group.members) - len(leaving)
    classic_size = group.classic_size - sum(member.classic is not None for member in leaving)
    return classic_size == size > 0 and _is_allowed(groups, size)


def may_downgrade_by_replacement(groups: ConsumerGroups, group: ConsumerGroup, replaced: ConsumerGroupMember) -> bool:
    """Returns whether a downgrade may follow when a member of the classic protocol replaces this static member."""
    size = len(group.members)
    return replaced.classic is None and group.classic_size == size - 1 and _is_allowed(groups, size)


def downgrade(
    decision: Decision,
    group: ConsumerGroup,
    *,
    leaving: Sequence[ConsumerGroupMember] = (),
    joining: ConsumerGroupMember | None = None,
    rebalance: str | None,
) -> None:
    """Writes the records that turn a consumer group, without the leaving members, into a classic group.

    `joining` takes the place of the static member with the same instance id; the records of that are written already.
    `rebalance` says why all members must join again; None if they need not.
    """
    groups, result, now = decision
    replaced = None if joining is None else group.static_member(joining.instance_id)
    classic = _classic_group(groups, group, {member.member_id for member in leaving}, joining, now)
    # The replaced member has its tombstones already; the records just written for its successor need some, too.
    successors = {} if joining is None or replaced is None else {replaced.member_id: joining.member_id}
    result.records += group.tombstones(successors)
    assignments = {member_id: member.assignment for member_id, member in classic.members.items()}
    result.records.append(group_metadata_record(group.group_id, classic.metadata_with(assignments)))
    after_append(result, lambda: groups.classic_groups.install(classic))
    # The timers of its members keep running: they are needed unchanged if the records are refused; otherwise they find
    # no consumer group.
    for member_id in group.members:
        after_append(result, partial(groups.await_nothing, group.group_id, member_id))
    after_append(result, partial(groups.forget, group.group_id))  # Also drops what `begin_life` has just stored.
    for member in classic.members.values():
        result.arm(member.session_timer, member.session_timeout_ms)
    if rebalance is not None:
        cause = needed(classic, Cause.PROTOCOL_CHANGED, None, rebalance, now)
        prepare_rebalance(classic, [cause], groups.config, result, now)


def _is_allowed(groups: ConsumerGroups, size: int) -> bool:
    return groups.config.consumer_migration_policy in _POLICIES and size <= groups.config.max_size


def _classic_group(
    groups: ConsumerGroups,
    group: ConsumerGroup,
    leaving: set[str],
    joining: ConsumerGroupMember | None,
    now: Millis,
) -> ClassicGroup:
    classic = ClassicGroup(group.group_id, now)
    classic.generation = Generation(group.epoch)
    targets = {}
    for member_id, member in group.members.items():
        if member_id in leaving or (joining is not None and member.instance_id == joining.instance_id):
            continue
        classic.add(_classic_member(group.group_id, member), CONSUMER_PROTOCOL_TYPE)
        targets[member_id] = group.target.get(member_id, NO_TARGET)
    if joining is not None:
        classic.add(_classic_member(group.group_id, joining), CONSUMER_PROTOCOL_TYPE)
        targets[joining.member_id] = group.target_of(joining.member_id, joining.instance_id)
    classic.protocol_name = name = classic.select_protocol()
    classic.state = GroupState.STABLE
    classic.topics = classic.compute_topics()
    for each in classic.members.values():
        each.assignment = assignment_bytes(groups.topics, targets[each.member_id], each.protocols, name)
    return classic


def _classic_member(group_id: str, member: ConsumerGroupMember) -> Member:
    assert member.classic is not None
    return Member(
        group_id=group_id,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=member.classic.protocols,
    )

"""Raising the group epoch: its record, and the events that give the causes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from klamm.core.group.consumer.changed_subscriptions import Subscriptions
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_group_records import epoch_record
from klamm.core.group.consumer.consumer_groups import CauseDetails, Decision
from klamm.core.group.consumer.group_state import ConsumerGroupState
from klamm.core.group.events import GroupIsStable, GroupType, NewEpoch, RebalanceNeeded
from klamm.core.group.follow_ups import after_append

__all__ = ["announce_stability", "raise_epoch"]


def raise_epoch(
    decision: Decision,
    group: ConsumerGroup,
    subscriptions: Subscriptions,
    causes: Sequence[CauseDetails],
    *,
    member_id: str | None,
    member_ids: Iterable[str],
) -> int:
    """Writes and returns the next group epoch; a new target is due then.

    `member_id` is the member that caused it, `member_ids` are the members from now on, and `subscriptions` are theirs.
    """
    groups, result, now = decision
    epoch = group.epoch + 1
    result.records.append(epoch_record(group.group_id, epoch, subscriptions.metadata_hash(groups.topics)))
    for cause in causes:
        result.events.append(
            RebalanceNeeded(
                group.group_id,
                GroupType.CONSUMER,
                group.epoch,
                cause.cause,
                member_id,
                cause.detail,
                now,
                cause.crash_loop,
            )
        )
    result.events.append(
        NewEpoch(group.group_id, GroupType.CONSUMER, epoch, tuple(member_ids), now, frozenset(subscriptions.topics))
    )
    # The epoch's hash covers all changes of the topics until now.
    after_append(result, lambda: groups.topics_are_seen(group.group_id))
    return epoch


def announce_stability(decision: Decision, group_id: str) -> None:
    """Publishes an event if the group is stable or empty once the decision's records are replayed."""

    groups, result, now = decision

    def look() -> None:
        group = groups.get(group_id)
        if group is not None and group.state in (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY):
            result.events.append(GroupIsStable(group_id, GroupType.CONSUMER, group.epoch, now))

    after_append(result, look)

"""Reconciliation: one member moves from its assignment to its target, one step at each heartbeat (KIP-848).

A step looks only at the member's own partitions and at the owners of those that it will get. So members reconcile at
their own pace and do not stop each other. A partition is assigned only once it has no owner (I15): its former owner has
confirmed the revocation or is gone. After Apache Kafka's `CurrentAssignmentBuilder`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.consumer.member import NO_PARTITIONS, Assigned, ConsumerGroupMember, Target
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.consumer_group_heartbeat_request import TopicPartitions
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["Reconciliation"]

_Epochs = dict[TopicId, dict[PartitionIndex, int]]


class Reconciliation(NamedTuple):
    """Everything that the next step of a member depends on; `next_member` takes the step."""

    member: ConsumerGroupMember
    target_epoch: int
    target: Target
    has_subscription_changed: bool
    """Whether this request changes the member's subscription. The member must revoke topics that it no longer reads at
    once, even if no new target is made yet."""
    is_subscribed_to: Callable[[TopicId], bool]
    """Whether the topic exists and the member reads it."""
    owner: Callable[[TopicId, PartitionIndex], str | None]
    """The member that owns a partition or has not revoked it yet, or None."""
    owned: Sequence[TopicPartitions] | None
    """The partitions that the member lists as owned; None if it sends no list."""

    def next_member(self) -> ConsumerGroupMember:
        """Returns the member after one step, or unchanged if there is none to take.

        Raises FENCED_MEMBER_EPOCH for a member in a state of a later version, unless it reports that it owns nothing.
        """
        member = self.member
        if member.state is MemberState.STABLE:
            if member.member_epoch != self.target_epoch:
                return self._towards_target(member.member_epoch)
            return self._without_unsubscribed() if self.has_subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            if self._owns_any_of(member.pending_revocation):
                return self._without_unsubscribed() if self.has_subscription_changed else member
            return self._towards_target(member.member_epoch)
        if member.state is MemberState.UNRELEASED_PARTITIONS:
            return self._towards_target(member.member_epoch)
        if self.owned is None or self.owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        return self._towards_target(self.target_epoch)

    def _owns_any_of(self, partitions: Assigned) -> bool:
        """Returns whether the member may still own one of the partitions; it may own all if it sends no list."""
        if self.owned is None:
            return True
        for topic in self.owned:
            asked_back = partitions.get(TopicId(topic.topic_id))
            if asked_back is not None and any(partition in asked_back for partition in topic.partitions):
                return True
        return False

    def _without_unsubscribed(self) -> ConsumerGroupMember:
        """Returns the member without the topics that it no longer reads; much less work than a whole step."""
        member = self.member
        gone = {
            topic_id: partitions
            for topic_id, partitions in member.assigned.items()
            if not self.is_subscribed_to(topic_id)
        }
        if not gone:
            return member
        kept = {topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id not in gone}
        pending = _union(member.pending_revocation, gone)
        next_member = member.with_epoch(member.member_epoch)._replace(assigned=kept or NO_PARTITIONS)
        if self._owns_any_of(pending):
            return next_member._replace(state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)
        return next_member

    def _towards_target(self, member_epoch: int) -> ConsumerGroupMember:
        member = self.member
        kept: _Epochs = {}
        to_revoke: _Epochs = {}
        to_assign: dict[TopicId, list[PartitionIndex]] = {}
        is_waiting = False
        target = {topic_id: wanted for topic_id, wanted in self.target.items() if self.is_subscribed_to(topic_id)}
        for topic_id, epochs in member.assigned.items():
            wanted = target.get(topic_id, frozenset())
            _put(kept, topic_id, ((partition, epoch) for partition, epoch in epochs.items() if partition in wanted))
            _put(
                to_revoke,
                topic_id,
                ((partition, epoch) for partition, epoch in epochs.items() if partition not in wanted),
            )
        for topic_id, wanted in target.items():
            present = kept.get(topic_id, {})
            # Partitions that the member itself had to revoke, and has revoked, are free after this step.
            let_go = member.pending_revocation.get(topic_id, {})
            free = []
            for partition in wanted:
                if partition in present:
                    continue
                if partition in let_go or self.owner(topic_id, partition) is None:
                    free.append(partition)
                else:
                    is_waiting = True
            if free:
                to_assign[topic_id] = free
        if to_revoke and self._owns_any_of(to_revoke):
            return member.with_epoch(member_epoch)._replace(
                state=MemberState.UNREVOKED_PARTITIONS, assigned=kept or NO_PARTITIONS, pending_revocation=to_revoke
            )
        for topic_id, free in to_assign.items():
            _put(kept, topic_id, ((partition, self.target_epoch) for partition in free))
        return member.with_epoch(self.target_epoch)._replace(
            state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
            assigned=kept or NO_PARTITIONS,
            pending_revocation=NO_PARTITIONS,
        )


def _put(epochs: _Epochs, topic_id: TopicId, partitions: Iterable[tuple[PartitionIndex, int]]) -> None:
    found = dict(partitions)
    if found:
        epochs.setdefault(topic_id, {}).update(found)


def _union(some: Assigned, others: Assigned) -> Assigned:
    union: _Epochs = {topic_id: dict(partitions) for topic_id, partitions in some.items()}
    for topic_id, partitions in others.items():
        union.setdefault(topic_id, {}).update(partitions)
    return union

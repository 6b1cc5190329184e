"""How one member comes from what it has to what the target says, a step at each heartbeat (KIP-848).

Nothing but the member's own partitions and the owners of those it is to get is looked at, so members reconcile at their
own pace and nobody else is stopped. A partition is handed out only once nobody has it (I15): the member that had it has
said so, or is gone. After Apache Kafka's `CurrentAssignmentBuilder`.
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
    """All that the next step of a member depends on; `next_member` takes it."""

    member: ConsumerGroupMember
    target_epoch: int
    target: Target
    has_subscription_changed: bool
    """Whether the member reads other topics since this heartbeat: what it reads no more it must let go at once, even if
    the target is not made anew yet."""
    is_subscribed_to: Callable[[TopicId], bool]
    """Whether the member reads the topic, which exists."""
    owner: Callable[[TopicId, PartitionIndex], str | None]
    """Who has a partition, or has not let it go yet."""
    owned: Sequence[TopicPartitions] | None
    """What the member says that it has; None if it doesn't say."""

    def next_member(self) -> ConsumerGroupMember:
        """The member one step on, or as it is.

        Raises FENCED_MEMBER_EPOCH for a member in a state that only a later version knows.
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
                ErrorCode.fenced_member_epoch,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        return self._towards_target(self.target_epoch)

    def _owns_any_of(self, partitions: Assigned) -> bool:
        """A member that doesn't say what it has may still have all of it."""
        if self.owned is None:
            return True
        for topic in self.owned:
            asked_back = partitions.get(TopicId(topic.topic_id))
            if asked_back is not None and any(partition in asked_back for partition in topic.partitions):
                return True
        return False

    def _without_unsubscribed(self) -> ConsumerGroupMember:
        """Take away the topics that the member reads no more, and nothing else: much less work than the whole step."""
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
            # What the member itself was to let go, and has let go, is nobody's after this step.
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

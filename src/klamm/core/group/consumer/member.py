"""One member of a consumer group: a value that is replaced as a whole when a record says so (KIP-848)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from klamm.core.group.classic.member import Protocols
from klamm.core.group.consumer.group_state import MemberState
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = [
    "JOINING_EPOCH",
    "LEAVING_EPOCH",
    "NO_PARTITIONS",
    "NO_TARGET",
    "NO_TOPICS_SUBSCRIBED",
    "STATIC_LEAVING_EPOCH",
    "Assigned",
    "ClassicMetadata",
    "ConsumerGroupMember",
    "Target",
]

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""A static member left, and will be back before its session is over."""

Assigned: TypeAlias = Mapping[TopicId, Mapping[PartitionIndex, int]]
"""Partitions by topic, each with the member epoch at which the member got it (KIP-1251); no topic is without any."""

Target: TypeAlias = Mapping[TopicId, frozenset[PartitionIndex]]
"""What a member is to have; no topic is without partitions."""

NO_PARTITIONS: Final[Assigned] = MappingProxyType({})
NO_TARGET: Final[Target] = MappingProxyType({})
NO_TOPICS_SUBSCRIBED: Final[frozenset[str]] = frozenset()


class ClassicMetadata(NamedTuple):
    """What a member that speaks the classic protocol said of itself when it joined."""

    session_timeout_ms: int
    protocols: Protocols


class ConsumerGroupMember(NamedTuple):
    """A member as the log knows it.

    Mappings in it are never changed once they are there.
    """

    member_id: str
    member_epoch: int = JOINING_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = NO_TOPICS_SUBSCRIBED
    subscribed_topic_regex: str = ""
    """Empty for none."""
    server_assignor: str | None = None
    assigned: Assigned = NO_PARTITIONS
    pending_revocation: Assigned = NO_PARTITIONS
    """Partitions that the member is asked to let go and has not yet; until then nobody else gets them."""
    classic: ClassicMetadata | None = None
    """None for a member that speaks the consumer protocol."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has all that the target of that epoch says."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def with_epoch(self, member_epoch: int) -> ConsumerGroupMember:
        """The same at that epoch; the present one becomes the previous."""
        return self._replace(member_epoch=member_epoch, previous_member_epoch=self.member_epoch)

    def assignment_epoch(self, topic_id: TopicId, partition: PartitionIndex) -> int | None:
        """The member epoch at which it got the partition, if it still has it or is about to let it go."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch

    @property
    def name(self) -> str:
        """What it is known by over restarts of the client, as far as that is possible."""
        return self.member_id if self.instance_id is None else self.instance_id

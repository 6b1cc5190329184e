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
    "STATIC_LEAVING_EPOCH",
    "Assigned",
    "ClassicMetadata",
    "ConsumerGroupMember",
    "Target",
]

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""A static member left and will come back before its session expires."""

Assigned: TypeAlias = Mapping[TopicId, Mapping[PartitionIndex, int]]
"""Partitions by topic, each with the member epoch at which the member got it (KIP-1251). No topic is empty."""

Target: TypeAlias = Mapping[TopicId, frozenset[PartitionIndex]]
"""A member's part of the target assignment. No topic is empty."""

NO_PARTITIONS: Final[Assigned] = MappingProxyType({})
NO_TARGET: Final[Target] = MappingProxyType({})
_NO_TOPICS_SUBSCRIBED: Final[frozenset[str]] = frozenset()


class ClassicMetadata(NamedTuple):
    """The JoinGroup data of a member that uses the classic protocol."""

    session_timeout_ms: int
    protocols: Protocols


class ConsumerGroupMember(NamedTuple):
    """A member as the log has it.

    Its mappings are never modified.
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
    subscribed_topic_names: frozenset[str] = _NO_TOPICS_SUBSCRIBED
    subscribed_topic_regex: str = ""
    """Empty for none."""
    server_assignor: str | None = None
    assigned: Assigned = NO_PARTITIONS
    pending_revocation: Assigned = NO_PARTITIONS
    """Partitions that the member must revoke and has not revoked yet; no other member gets them until then."""
    classic: ClassicMetadata | None = None
    """None for a member that uses the consumer protocol."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Returns whether the member has its whole part of the target of that epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def with_epoch(self, member_epoch: int) -> ConsumerGroupMember:
        """Returns the member at that epoch; the present epoch becomes the previous one."""
        return self._replace(member_epoch=member_epoch, previous_member_epoch=self.member_epoch)

    def assignment_epoch(self, topic_id: TopicId, partition: PartitionIndex) -> int | None:
        """Returns the member epoch at which the member got the partition, assigned or pending revocation, or None."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch

    @property
    def name(self) -> str:
        """The instance id, which survives restarts of the client; the member id of a dynamic member."""
        return self.member_id if self.instance_id is None else self.instance_id

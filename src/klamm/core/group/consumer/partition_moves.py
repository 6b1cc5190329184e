"""The partitions that a new target moves between members; published with it, so that there is time to prepare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

from klamm.core.group.consumer.assignor_input import Change
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_groups import ConsumerGroups
from klamm.core.group.consumer.member import NO_TARGET, Target
from klamm.core.group.events import PartitionMove
from klamm.protocol.types import PartitionIndex

__all__ = ["MOVES_TOLD", "moves_to"]

MOVES_TOLD: Final = 1000
"""Maximum of moves published with a target: preparing for thousands makes no sense, and listing all of them would delay
every other group."""
_NO_OWNERS: Final[Mapping[PartitionIndex, str]] = MappingProxyType({})


def moves_to(
    target: Mapping[str, Target], groups: ConsumerGroups, group: ConsumerGroup, change: Change | None
) -> tuple[PartitionMove, ...]:
    """Returns the partitions that this target moves from their owner, or their previous owner, to another member.

    The earlier member may be gone. `change` is the change of a member in the same decision.
    """
    replaced: dict[str, str] = {}
    if change is not None and change.replaced_id is not None:
        replaced[change.new.member_id] = change.replaced_id
    return tuple(islice(_moves(target, groups, group, replaced), MOVES_TOLD))


def _moves(
    target: Mapping[str, Target], groups: ConsumerGroups, group: ConsumerGroup, replaced: Mapping[str, str]
) -> Iterator[PartitionMove]:
    left = groups.previous_owners.get(group.group_id)
    if not group.owners and not left:
        return  # True for the first target, the largest.
    for member_id, wanted in target.items():
        # A static member that returns under another member id is the same member, and keeps its partitions.
        known_as = replaced.get(member_id, member_id)
        before = group.target.get(known_as, NO_TARGET)
        if wanted == before:
            continue
        for topic_id, partitions in wanted.items():
            facts = groups.topics.by_id(topic_id)
            owners = group.owners.get(topic_id, _NO_OWNERS)
            if facts is None or not (owners or left):
                continue
            for partition in sorted(partitions - before.get(topic_id, frozenset())):
                owner = owners.get(partition)
                if owner is None and left and (last := left.get((topic_id, partition))) is not None:
                    owner = last.member_id
                if owner is None or owner in (member_id, known_as):
                    continue
                committed = groups.group_store.offset(group.group_id, facts.name, partition)
                offset = None if committed is None else committed.offset
                yield PartitionMove(facts.name, partition, owner, member_id, offset)

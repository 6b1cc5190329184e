"""The assignments that leaders of classic groups compute from subscriptions.

There are two ways: a new round robin each time, and sticky assignment with moves in two steps (KIP-429). A cooperative
leader never gives a partition to one member while another member reports that it owns the partition. First the leader
takes the partition away, and assigns it in the next rebalance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Partition", "Subscription", "deal", "share_cooperatively"]

Partition = tuple[str, int]


class Subscription(NamedTuple):
    """The subscription of one member when it joined."""

    topics: tuple[str, ...]
    owned: frozenset[Partition]
    generation: int
    """The generation in which the member got its partitions; -1 if it has lost them."""


def deal(subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]) -> dict[str, list[Partition]]:
    """Assigns partitions round robin to the members that subscribe to them."""
    dealt: dict[str, list[Partition]] = {member_id: [] for member_id in subscriptions}
    for topic in sorted(partition_counts):
        takers = sorted(member_id for member_id, subscription in subscriptions.items() if topic in subscription.topics)
        for index in range(partition_counts[topic] if takers else 0):
            dealt[takers[index % len(takers)]].append((topic, index))
    return dealt


def share_cooperatively(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> dict[str, list[Partition]]:
    """Assigns partitions evenly with few moves, and leaves out partitions that must be revoked first."""
    owner_of = _owners(subscriptions)
    shared: dict[str, list[Partition]] = {member_id: [] for member_id in subscriptions}
    for topic in sorted(partition_counts):
        takers = [member_id for member_id, subscription in subscriptions.items() if topic in subscription.topics]
        if takers:
            _share_topic(topic, partition_counts[topic], takers, owner_of, shared)
    return {
        member_id: [partition for partition in partitions if owner_of.get(partition, member_id) == member_id]
        for member_id, partitions in shared.items()
    }


def _owners(subscriptions: Mapping[str, Subscription]) -> dict[Partition, str]:
    """Returns the owner of each partition; if two members report it, the owner is the one with the later generation."""
    owner_of: dict[Partition, str] = {}
    for member_id in sorted(subscriptions):
        subscription = subscriptions[member_id]
        for partition in subscription.owned:
            other = owner_of.get(partition)
            if other is None or subscriptions[other].generation < subscription.generation:
                owner_of[partition] = member_id
    return owner_of


def _share_topic(
    topic: str, count: int, takers: list[str], owner_of: Mapping[Partition, str], shared: dict[str, list[Partition]]
) -> None:
    held: dict[str, list[Partition]] = {member_id: [] for member_id in takers}
    for index in range(count):
        owner = owner_of.get((topic, index))
        if owner in held:
            held[owner].append((topic, index))
    base, extra = divmod(count, len(takers))
    quotas = {}
    for place, member_id in enumerate(sorted(takers, key=lambda each: (-min(len(held[each]), base + 1), each))):
        quotas[member_id] = base + (place < extra)
    kept = {partition for member_id in takers for partition in held[member_id][: quotas[member_id]]}
    free = [(topic, index) for index in range(count) if (topic, index) not in kept]
    for member_id in sorted(takers):
        own = held[member_id][: quotas[member_id]]
        missing = quotas[member_id] - len(own)
        shared[member_id] += sorted(own + free[:missing])
        del free[:missing]

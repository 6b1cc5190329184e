"""Collects the changes of partitions for one transaction, with everything that they depend on.

- A change with a new leader depends on the run of that leader: a later run has lost its places.
- A new leader that may lack committed records is elected only while the replicas that would be elected before it are
  away. Another broker may register at the same moment, and keep its places. So the change also depends on the runs of
  these replicas. Without that, an unclean election would lose records that a live replica has.
- Such an election also depends on the settings of the topic and of the cluster: they may forbid it by now.
- A change that makes a replica eligible depends on the same settings, and needs the guard of `eligible_leaders`. Both
  kinds of changes use this guard.

Apache Kafka needs none of this: one controller makes all decisions, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from klamm.metadata.entries import live_key, put_partition, topic_key
from klamm.metadata.image import NO_BROKER, MetadataImage, PartitionImage, TopicImage
from klamm.metadata.metadata_store import Change, Plan
from klamm.metadata.replicas.eligible_leaders import guard_change, makes_eligible
from klamm.protocol.types import BrokerId

__all__ = ["PartitionChanges"]

T = TypeVar("T")


class PartitionChanges:
    """Changes of partitions that fit into one transaction. Each is valid without the others."""

    def __init__(self, image: MetadataImage, room: int, runs: Iterable[BrokerId] = ()) -> None:
        """Collects changes that are decided on `image`, with at most `room` keys that are changed or compared.

        `runs`: brokers on whose runs all changes depend.
        """
        self._image = image
        self._room = room
        self._changes: dict[str, Change] = {}
        self._reads = dict.fromkeys(map(live_key, runs))
        self._guards: list[Change] = []

    def __len__(self) -> int:
        return len(self._changes)

    def add(self, topic: TopicImage, before: PartitionImage, after: PartitionImage) -> bool:
        """Adds the change of a partition. Returns False if there is no room for it; the first one has room always."""
        change = put_partition(topic.topic_id, after)
        reads = dict.fromkeys(map(live_key, _deciding_runs(before, after)))
        guards = self._guards
        if makes_eligible(before, after) or _is_unclean(before, after):
            reads[topic_key(topic.name)] = None
            guards = guards or [guard_change(self._image)]
        more = (change.key not in self._changes) + sum(key not in self._reads for key in reads)
        if self._changes and len(self._changes) + len(self._reads) + len(guards) + more > self._room:
            return False
        self._changes[change.key] = change
        self._reads |= reads
        self._guards = guards
        return True

    def plan(self, result: T) -> Plan[T]:
        """Returns the plan that makes all changes."""
        if not self._changes:
            return Plan(result)
        return Plan(result, [*self._changes.values(), *self._guards], list(self._reads))


def _deciding_runs(before: PartitionImage, after: PartitionImage) -> set[BrokerId]:
    """Returns the brokers whose runs have decided who leads: none, if the leader stays or there is none."""
    if after.leader in (NO_BROKER, before.leader):
        return set()
    if not _is_unclean(before, after):
        return {after.leader}
    last = before.last_known_leader if before.leader == NO_BROKER else before.leader
    return {after.leader, *before.isr, *before.elr, last} - {NO_BROKER}


def _is_unclean(before: PartitionImage, after: PartitionImage) -> bool:
    """Returns whether a leader is elected that may lack committed records."""
    return after.is_recovering and after.leader not in (NO_BROKER, before.leader)

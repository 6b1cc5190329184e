"""I26 after the faults: every group is stable, and its members own all partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.checkers.view import active_shard, find_group
from tests.simulation.members.classic import ClassicMember
from tests.simulation.members.member import Member
from tests.simulation.notes import in_words

from klamm.core.coordinator.java_hash import partition_for
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.protocol.types import PartitionIndex

if TYPE_CHECKING:
    from tests.simulation.topics import DataPartition
    from tests.simulation.world import World

__all__ = ["RestChecker"]


class RestChecker:
    """A check whether the world is at rest."""

    def __init__(self, world: World) -> None:
        self._world = world

    def missing(self, *, is_all_read: bool) -> str | None:
        """Returns the first reason why the world is not at rest, or None."""
        for group in self._world.plan.groups:
            running = [
                member
                for member in self._world.members
                if member.plan.group_id == group.group_id and member.is_running and not member.is_fenced
            ]
            what = self._missing_in_group(group.group_id, running, is_all_read)
            if what is not None:
                return what
        return None

    def _missing_in_group(self, group_id: str, running: list[Member], is_all_read: bool) -> str | None:
        for member in running:
            if not member.is_at_rest:
                return f"{member.name} is not at rest"
        what = self._missing_at_coordinator(group_id, running)
        if what is not None:
            return what
        wanted = self._wanted(running)
        owners: dict[DataPartition, str] = {}
        for member in running:
            for partition in self._owned(group_id, member):
                if partition in owners:
                    return f"{in_words(partition)} is owned by {owners[partition]} and {member.name}"
                owners[partition] = member.name
        if owners.keys() != wanted:
            return f"{group_id}: owned {in_words(sorted(owners))}, subscribed {in_words(sorted(wanted))}"
        if is_all_read:
            for partition in sorted(wanted):
                read = self._world.checkers.reading.read.get((group_id, partition), 0)
                if read < self._world.topics.end_offset(partition):
                    return f"{group_id} has read {in_words(partition)} up to {read} only"
        return None

    def _owned(self, group_id: str, member: Member) -> list[DataPartition]:
        """Returns the partitions of the member, without deleted topics in a case that Kafka allows."""
        owned = list(self._world.checkers.reading.owned.get((group_id, member.name), ()))
        if isinstance(member, ClassicMember) and isinstance(self._group_of(group_id), ConsumerGroup):
            # A topic was deleted before its group changed its protocol. The converted assignments do not contain the
            # topic (ConsumerGroup.fromClassicGroup). So nothing changes for the coordinator, and no member needs to
            # join again.
            existing = {topic.topic_id for topic in self._world.topics.image.topics.values()}
            owned = [partition for partition in owned if partition[0] in existing]
        return owned

    def _group_of(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        partition = PartitionIndex(partition_for(group_id, self._world.plan.partition_count))
        leader = self._world.disk.replicas[partition].leader
        shard = None if leader < 0 else active_shard(self._world.cluster.broker(leader), partition)
        return None if shard is None else find_group(shard, group_id)

    def _missing_at_coordinator(self, group_id: str, running: list[Member]) -> str | None:
        partition = PartitionIndex(partition_for(group_id, self._world.plan.partition_count))
        leader = self._world.disk.replicas[partition].leader
        shard = None if leader < 0 else active_shard(self._world.cluster.broker(leader), partition)
        if shard is None:
            return f"{group_id} has no coordinator"
        group = find_group(shard, group_id)
        if group is None:
            return f"{group_id} does not exist" if running else None
        if group.state.value != ("Stable" if running else "Empty"):
            return f"{group_id} is {group.state.value}"
        if isinstance(group, ConsumerGroup) and not group.regex_counts.keys() <= group.regexes.keys():
            return f"{group_id} has regular expressions that are not resolved"
        if group.members.keys() != {member.member_id for member in running}:
            return f"{group_id} has members {sorted(group.members)}"
        return None

    def _wanted(self, running: list[Member]) -> set[DataPartition]:
        wanted = set()
        for name in sorted({name for member in running for name in member.wanted_topics()}):
            topic = self._world.topics.image.topics[name]
            wanted |= {(topic.topic_id, index) for index in range(len(topic.partitions))}
        return wanted

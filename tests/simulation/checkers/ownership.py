"""I15: the owner of each partition in a group, as the coordinator sees it.

The owner is the last member that got the partition, until this member gives it up. A member gives up a partition when
it reports that it does not have it, leaves, or is removed. Only then may another member get the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

from tests.simulation.notes import in_words
from tests.simulation.topics import DataPartition
from tests.simulation.violation import Violation

__all__ = ["Owner", "Ownership"]


class Owner(NamedTuple):
    """The last member that got a partition, with the generation or member epoch."""

    member_id: str
    instance_id: str | None
    epoch: int


class Ownership:
    """The owners of one group's partitions."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forgets all owners, because the group is deleted."""
        self._owners: dict[DataPartition, Owner] = {}
        self._freed: dict[DataPartition, Owner] = {}
        """The partitions of removed members, as long as the removal may be lost with the end of the log."""
        self._may_be_free: set[tuple[DataPartition, str]] = set()
        """Partitions that a member does not report as owned, in a request without an answer yet."""

    def begin_round(self) -> None:
        """Starts a new round with another coordinator: the log may have lost the removal of members."""
        self._owners = {**self._freed, **self._owners}
        self._freed = {}

    def members(self) -> set[str]:
        """Returns the members that own partitions."""
        return {owner.member_id for owner in self._owners.values()}

    def owner(self, partition: DataPartition) -> Owner | None:
        """Returns the owner of the partition."""
        return self._owners.get(partition)

    def give(
        self, new: Owner, partitions: Iterable[DataPartition], is_gone: Callable[[Owner, DataPartition], bool]
    ) -> None:
        """Makes a member the owner of partitions. `is_gone` returns whether the group has removed the former owner."""
        for partition in sorted(partitions):
            owner = self._owners.get(partition)
            if owner is not None and owner.member_id != new.member_id:
                is_successor = owner.instance_id is not None and owner.instance_id == new.instance_id
                may_be_free = (partition, owner.member_id) in self._may_be_free
                if not (is_successor or may_be_free or is_gone(owner, partition)):
                    raise Violation(
                        15, f"{in_words(partition)} was given to {in_words(new)}, and not taken from {in_words(owner)}"
                    )
            self._owners[partition] = new
            self._may_be_free.discard((partition, new.member_id))
            self._freed.pop(partition, None)

    def release(self, member_id: str, kept: Set[DataPartition]) -> None:
        """Releases all partitions of a member except `kept`."""
        for partition, owner in list(self._owners.items()):
            if owner.member_id == member_id and partition not in kept:
                del self._owners[partition]

    def may_release(self, member_id: str, kept: Set[DataPartition]) -> None:
        """Notes that a member may have released all partitions except `kept`: its request is not answered yet."""
        for partition, owner in self._owners.items():
            if owner.member_id == member_id and partition not in kept:
                self._may_be_free.add((partition, member_id))

    def take_out(self, member_id: str) -> None:
        """Removes a member, and frees its partitions."""
        for partition, owner in list(self._owners.items()):
            if owner.member_id == member_id:
                self._freed[partition] = self._owners.pop(partition)

    def settle(self, member_id: str) -> None:
        """Makes an earlier removal of the member final, because a coordinator has answered the member."""
        if self._freed:
            self._freed = {each: owner for each, owner in self._freed.items() if owner.member_id != member_id}

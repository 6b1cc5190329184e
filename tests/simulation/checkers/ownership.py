"""I15: to whom each partition of a group belongs, as the coordinator sees it.

It belongs to the member that was told so last, until that member has let it go: it has said that it does not have it,
or has left, or was taken out. Only then may another be told that it has the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

from tests.simulation.notes import in_words
from tests.simulation.topics import DataPartition
from tests.simulation.violation import Violation

__all__ = ["Owner", "Ownership"]


class Owner(NamedTuple):
    """Who was told last, and in which generation or member epoch."""

    member_id: str
    instance_id: str | None
    epoch: int


class Ownership:
    """The owners of one group's partitions."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """The group is gone."""
        self._owners: dict[DataPartition, Owner] = {}
        self._freed: dict[DataPartition, Owner] = {}
        """What members had when they were taken out, as long as that may turn out not to have happened."""
        self._may_be_free: set[tuple[DataPartition, str]] = set()
        """What members have said that they don't have, in requests that were not answered yet."""

    def begin_round(self) -> None:
        """Another coordinator: what was taken from members may have been lost with the end of the log."""
        self._owners = {**self._freed, **self._owners}
        self._freed = {}

    def members(self) -> set[str]:
        """All who have something."""
        return {owner.member_id for owner in self._owners.values()}

    def owner(self, partition: DataPartition) -> Owner | None:
        """To whom the partition belongs."""
        return self._owners.get(partition)

    def give(
        self, new: Owner, partitions: Iterable[DataPartition], is_gone: Callable[[Owner, DataPartition], bool]
    ) -> None:
        """A member was told that it has these. `is_gone` says of an owner whether the group has done with it."""
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
        """A member has nothing but these any more, and maybe not even those."""
        for partition, owner in list(self._owners.items()):
            if owner.member_id == member_id and partition not in kept:
                del self._owners[partition]

    def may_release(self, member_id: str, kept: Set[DataPartition]) -> None:
        """The same, if what the member has said comes to count."""
        for partition, owner in self._owners.items():
            if owner.member_id == member_id and partition not in kept:
                self._may_be_free.add((partition, member_id))

    def take_out(self, member_id: str) -> None:
        """A member is none any more."""
        for partition, owner in list(self._owners.items()):
            if owner.member_id == member_id:
                self._freed[partition] = self._owners.pop(partition)

    def settle(self, member_id: str) -> None:
        """A member was told something, so if it had been taken out, that is certain now."""
        if self._freed:
            self._freed = {each: owner for each, owner in self._freed.items() if owner.member_id != member_id}

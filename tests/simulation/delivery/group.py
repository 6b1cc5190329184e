"""The group of a world of workers, as its coordinator sees it: members, owners of partitions, and commits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.delivery.checks import DeliveryChecks
from tests.simulation.delivery.topic import PartitionLog
from tests.simulation.loop import EventLoop
from tests.simulation.violation import Violation

from klamm.core.delivery.record_delivery import Commit
from klamm.protocol.types import Offset, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.delivery.member import Member

__all__ = ["Group"]


class Group:
    """Moves partitions as cooperative protocols do: the owner gives a partition back before another one gets it."""

    def __init__(self, loop: EventLoop, logs: list[PartitionLog], checks: DeliveryChecks) -> None:
        self._loop = loop
        self._logs = {log.name: log for log in logs}
        self._checks = checks
        self.members: list[Member] = []
        self._owners: dict[TopicPartition, Member | None] = dict.fromkeys(self._logs)
        self._rotation = 0

    def join(self, member: Member) -> None:
        """Adds a member."""
        self.members.append(member)
        self.balance()

    def remove(self, member: Member) -> None:
        """Removes a member whose session is over, or that has left; its partitions have no owner."""
        if member in self.members:
            self.members.remove(member)
            for partition, owner in self._owners.items():
                if owner is member:
                    self._owners[partition] = None
            self.balance()

    def rotate(self) -> None:
        """Gives each partition to the next member."""
        self._rotation += 1
        self.balance()

    def balance(self) -> None:
        """Assigns free partitions, and asks owners for partitions that go to other members."""
        if not self.members:
            return
        for index, (partition, owner) in enumerate(self._owners.items()):
            target = self.members[(index + self._rotation) % len(self.members)]
            if owner is None and target.is_reachable:
                self._owners[partition] = target
                target.assigned(self._logs[partition])
            elif owner is not None and owner is not target and owner.is_reachable:
                owner.revoke(partition)

    def released(self, member: Member, partition: TopicPartition) -> None:
        """Takes a partition that its owner gave back."""
        if self._owners[partition] is member:
            self._owners[partition] = None
            self.balance()

    def commit(self, member: Member, epoch: int, commit: Commit, known: frozenset[Offset]) -> bool:
        """Returns whether the commit is accepted. `known` is what the member had finished when it made the commit.

        Apache Kafka accepts a commit of any current member, also for a partition of another member.
        """
        if member not in self.members or member.epoch != epoch:
            return False
        if self._owners[commit.partition] is not member:
            raise Violation(25, f"{member.name} commits {commit.partition}, which it has lost")
        log = self._logs[commit.partition]
        self._checks.accepted(log, commit.offset, known)
        log.committed, log.metadata, log.known_finished = commit.offset, commit.metadata, known
        return True

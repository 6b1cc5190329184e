"""The changes of replicas and leaders that one broker makes in the metadata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from klamm.metadata.brokers import plan_stop
from klamm.metadata.replicas.broker_departure import plan_upkeep
from klamm.metadata.replicas.elections import ElectionOutcome, plan_elections
from klamm.metadata.replicas.failed_replicas import plan_distrust, plan_failed_replicas
from klamm.metadata.replicas.isr_changes import IsrOutcome, IsrProposal, plan_isr_changes
from klamm.metadata.replicas.reassignments import Reassignment, plan_reassignments

if TYPE_CHECKING:
    from klamm.metadata.image import MetadataImage
    from klamm.metadata.metadata_store import Plan, Planning
    from klamm.metadata.replicas.partition_change import Election
    from klamm.protocol.errors import KafkaError
    from klamm.protocol.types import BrokerId, TopicPartition

__all__ = ["ReplicaChanges"]

T = TypeVar("T")

_KEPT_AT_ONCE: Final = 500
"""Number of keys in one decision about leaders, if the store has no limit."""


class Change(Protocol):
    """Decides on the newest image and writes the decision: `MetadataService` provides it."""

    def __call__(self, decide: Callable[[MetadataImage], Plan[T] | Planning[T]], /) -> Awaitable[T]:
        """Returns the result of the decision after its changes are durable and the image shows them."""


class ReplicaChanges:
    """The changes of one broker. Its methods return and raise as those of `MetadataService`.

    A change of many partitions is decided in parts that fit into one transaction each. A decision in several
    transactions would be made again as a whole, and then find its own changes: "the election is not needed".
    """

    def __init__(self, change: Change, broker_id: BrokerId, incarnation: str, room: int | None) -> None:
        """Creates the changes. `room`: the largest number of changes in a transaction, None without a limit."""
        self._room = _KEPT_AT_ONCE if room is None else room
        self.is_unclean_allowed = False
        """`unclean.leader.election.enable` in the broker's static configuration."""
        self.is_stopping = False
        """Whether this broker has announced its stop, or is about to."""
        self._change = change
        self._broker_id = broker_id
        self._incarnation = incarnation

    async def alter_isr(self, proposals: Sequence[IsrProposal]) -> list[IsrOutcome]:
        """Changes the in-sync replicas of partitions that this broker leads; returns the outcome of each, in order.

        As many changes as one transaction can hold share it, because a transaction of a cluster waits for the disks of
        its store: after the restart of a broker, all partitions that it follows change at about the same time.
        """
        outcomes: list[IsrOutcome] = []
        while len(outcomes) < len(proposals):
            left = proposals[len(outcomes) :]
            made = await self._change(partial(plan_isr_changes, proposals=left, room=self._room))
            outcomes += made
        return outcomes

    async def keep_leaders(self, *, elects_unclean: bool = True) -> int:
        """Elects leaders for the partitions whose brokers have gone, stop, or are back. Returns how many changed.

        A starting broker calls it without `elects_unclean`, because its own log may have the records that an unclean
        election loses.
        """
        plan = partial(
            plan_upkeep, limit=self._room, is_unclean_allowed=self.is_unclean_allowed, elects_unclean=elects_unclean
        )
        total = 0
        while count := await self._change(plan):
            total += count
        return total

    async def elect(self, wanted: Sequence[TopicPartition], election: Election) -> list[ElectionOutcome]:
        """Elects leaders on request; returns the outcome for each partition, in order."""
        outcomes: list[ElectionOutcome] = []
        while len(outcomes) < len(wanted):
            left = wanted[len(outcomes) :]
            made = await self._change(partial(plan_elections, wanted=left, election=election, room=self._room))
            outcomes += made
        return outcomes

    async def reassign(self, wanted: Sequence[Reassignment], *, allows_other_factor: bool) -> list[KafkaError | None]:
        """Begins or cancels reassignments; returns None for each on success, otherwise the reason, in order."""
        results: list[KafkaError | None] = []
        plan = partial(plan_reassignments, room=self._room, allows_other_factor=allows_other_factor)
        while len(results) < len(wanted):
            made = await self._change(partial(plan, wanted=wanted[len(results) :]))
            results += made
        return results

    async def give_up(self, failed: Sequence[TopicPartition]) -> int:
        """Gives up this broker's places in partitions whose logs it can't use; returns how many partitions change.

        A replica keeps its places if no other one may hold all committed records.
        """
        plan = partial(plan_failed_replicas, broker_id=self._broker_id, incarnation=self._incarnation, room=self._room)
        decided = changed = 0
        while decided < len(failed):
            made = await self._change(partial(plan, failed=failed[decided:]))
            decided += made.decided
            changed += made.changed
        return changed

    async def distrust_run(self) -> None:
        """Removes this run from the broker's registration: no directory proves that its records are all there."""
        await self._change(lambda image: plan_distrust(image, self._broker_id, self._incarnation))

    async def begin_stop(self) -> None:
        """Announces that this broker is about to stop, so that it leads nothing and joins no in-sync replicas."""
        self.is_stopping = True
        await self._change(lambda image: plan_stop(image, self._broker_id, self._incarnation))

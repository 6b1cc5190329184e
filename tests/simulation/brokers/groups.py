"""The ledger of the one group in a world of brokers: what its members were told, and what must hold for the group.

A generation that was lost in a crash of the broker may occur again, with other members. So assignments are compared
within one life of the broker. Written data are compared across all lives, unless the world may lose records.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.violation import Violation

from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.client_world import ClientWorld

__all__ = ["GroupLedger", "Shares"]

Shares = dict[str, frozenset[TopicPartition]]
"""The partitions that a leader assigns to each member, by member id."""


class _Holding(NamedTuple):
    """The partitions that a member has, as far as the coordinator knows, and the round of their assignment."""

    round: tuple[int, int]
    """Life and generation. The generation is 0 in a consumer group, where each member has an epoch of its own."""
    partitions: frozenset[TopicPartition]
    safe_until_ms: float
    """The coordinator cannot have taken the partitions away before this time."""


class GroupLedger:
    """The ledger of one group."""

    def __init__(self, world: ClientWorld) -> None:
        self._world = world
        self._shared: dict[tuple[int, str], list[frozenset[TopicPartition]]] = {}
        self._owners: dict[tuple[int, int], dict[TopicPartition, str]] = {}
        """The owner of each partition, by life and generation, in a classic group."""
        self._holdings: dict[str, _Holding] = {}
        """The partitions of the current members, by member name."""
        self.generation = -1
        """The newest generation that is known to be written, because a member of a classic group got its assignment."""
        self._asked: dict[TopicPartition, set[int]] = {}
        self._acknowledged: dict[TopicPartition, tuple[int, int]] = {}
        """The last offset whose commit was acknowledged, and the life in which it was acknowledged."""
        self.is_settled = False
        """Whether the members owned all partitions after the last fault."""

    # Classic groups

    def shares(self, generation: int, shares: Shares) -> None:
        """Records the assignment that a leader is about to send."""
        for member_id, partitions in shares.items():
            self._shared.setdefault((generation, member_id), []).append(partitions)

    def assigned(
        self, name: str, member_id: str, life: int, generation: int, partitions: frozenset[TopicPartition]
    ) -> None:
        """Records the assignment that a member received, and checks it (I15)."""
        if partitions not in self._shared.get((generation, member_id), ()):
            raise Violation(15, f"{name} was told what no leader of generation {generation} has given it")
        owners = self._owners.setdefault((life, generation), {})
        for where in partitions:
            owner = owners.setdefault(where, member_id)
            if owner != member_id:
                raise Violation(15, f"{where} is {owner}'s in generation {generation}, and {name} was given it")
        self.generation = max(self.generation, generation)
        self._holdings[name] = _Holding((life, generation), partitions, 0.0)

    # Consumer groups

    def says(self, name: str, partitions: Collection[TopicPartition]) -> None:
        """Removes the partitions that a member does not report any more to the coordinator."""
        holding = self._holdings.get(name)
        if holding is not None:
            self._holdings[name] = holding._replace(partitions=holding.partitions.intersection(partitions))

    def told(self, name: str, life: int, partitions: frozenset[TopicPartition], safe_until_ms: float) -> None:
        """Records the partitions that a member received; no other member may have them (I15).

        The member can't lose the partitions before `safe_until_ms`. An answer that arrives after that time may have
        been true when it was sent.
        """
        now_ms = self._world.loop.now_ms
        for other, holding in self._holdings.items():
            common = holding.partitions & partitions
            is_sure = holding.round == (life, 0) and now_ms < min(safe_until_ms, holding.safe_until_ms)
            if other != name and common and is_sure:
                raise Violation(15, f"{name} was given {min(common)}, which {other} has until it says otherwise")
        before = self._holdings.get(name)
        kept = before.partitions if before is not None else frozenset()
        self._holdings[name] = _Holding((life, 0), partitions | kept, safe_until_ms)

    # Both kinds of groups

    def gives_up(self, name: str) -> None:
        """Records that a member has no partitions any more, as far as the member knows."""
        self._holdings.pop(name, None)

    def look_whether_settled(self, members: int) -> None:
        """Sets `is_settled` if `members` members have all partitions, in one generation."""
        holdings = self._holdings.values()
        if not self._world.is_ending or len(holdings) < members or len({each.round[1] for each in holdings}) != 1:
            return
        partitions = [where for each in holdings for where in each.partitions]
        if len(partitions) == len(set(partitions)) == len(self._world.partitions):
            self.is_settled = True

    # Offsets

    def commits(self, where: TopicPartition, offset: int) -> None:
        """Records an offset that a member is about to commit."""
        self._asked.setdefault(where, set()).add(offset)

    def accepted(self, name: str, generation: int, newest: int) -> None:
        """Checks an accepted commit (I16); `newest` is the newest generation that was known when it was sent."""
        if generation < newest and not self._world.plan.may_lose:
            raise Violation(16, f"{name} has committed in generation {generation}, and {newest} was known")

    def committed(self, where: TopicPartition, offset: int, life: int) -> None:
        """Records the offset of an accepted commit."""
        self._acknowledged[where] = offset, life

    def found(self, name: str, where: TopicPartition, offset: int) -> None:
        """Checks the committed offset that a member fetched for its new partition (I17, I18)."""
        if offset >= 0 and offset not in self._asked.get(where, ()):
            raise Violation(17, f"{name} finds offset {offset} for {where}, which nobody has committed")
        high_watermark = self._world.model.partitions[where].high_watermark
        if offset > high_watermark and not self._world.plan.may_lose:
            raise Violation(18, f"{name} finds offset {offset} for {where}, whose high watermark is {high_watermark}")
        acknowledged, life = self._acknowledged.get(where, (-1, 0))
        # A delayed request may restore an earlier offset.
        if (
            offset < acknowledged
            and not self._world.plan.has_stalled_links
            and not self._world.may_have_lost_since(life)
        ):
            raise Violation(17, f"{name} finds offset {offset} for {where}, and {acknowledged} was acknowledged")

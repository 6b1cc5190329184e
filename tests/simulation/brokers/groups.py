"""What the members of the one group of a world of brokers are told, and what must hold of it.

Generations that were lost with a broker may come again, with other members. So what members are told is compared within
one life of the broker; what was written is compared over all of them, unless the world may lose records.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.violation import Violation

from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.world import BrokerWorld

__all__ = ["GroupLedger", "Shares"]

Shares = dict[str, frozenset[TopicPartition]]
"""What a leader gives to each member, by member id."""


class _Holding(NamedTuple):
    """What a member has, as far as the coordinator was told, and of which round it is."""

    round: tuple[int, int]
    """Life and generation. In a consumer group each member has an epoch of its own: there the generation is 0."""
    partitions: frozenset[TopicPartition]
    safe_until_ms: float
    """Nobody can have taken it away before that."""


class GroupLedger:
    """One group."""

    def __init__(self, world: BrokerWorld) -> None:
        self._world = world
        self._shared: dict[tuple[int, str], list[frozenset[TopicPartition]]] = {}
        self._owners: dict[tuple[int, int], dict[TopicPartition, str]] = {}
        """Who was told to have what, by life and generation, in a classic group."""
        self._holdings: dict[str, _Holding] = {}
        """Of members that are there, by their names."""
        self.generation = -1
        """The newest one of which a member of a classic group was told that it is written."""
        self._asked: dict[TopicPartition, set[int]] = {}
        self._acknowledged: dict[TopicPartition, tuple[int, int]] = {}
        """The last offset whose commit was acknowledged, and in which life."""
        self.is_settled = False
        """Whether nothing went wrong any more, and the members had divided all partitions between them."""

    # Classic groups

    def shares(self, generation: int, shares: Shares) -> None:
        """A leader is about to say who has what."""
        for member_id, partitions in shares.items():
            self._shared.setdefault((generation, member_id), []).append(partitions)

    def assigned(
        self, name: str, member_id: str, life: int, generation: int, partitions: frozenset[TopicPartition]
    ) -> None:
        """A member was told what it has (I15)."""
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
        """A member is about to tell the coordinator what it has."""
        holding = self._holdings.get(name)
        if holding is not None:
            self._holdings[name] = holding._replace(partitions=holding.partitions.intersection(partitions))

    def told(self, name: str, life: int, partitions: frozenset[TopicPartition], safe_until_ms: float) -> None:
        """A member was told what it has (I15), and can't have lost it before the time that is said.

        What it is told after that time may have been true when it was said.
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

    # Both

    def gives_up(self, name: str) -> None:
        """A member has nothing any more, as far as it knows."""
        self._holdings.pop(name, None)

    def look_whether_settled(self, members: int) -> None:
        """Whether so many members have all partitions, in one generation."""
        holdings = self._holdings.values()
        if not self._world.is_ending or len(holdings) < members or len({each.round[1] for each in holdings}) != 1:
            return
        partitions = [where for each in holdings for where in each.partitions]
        if len(partitions) == len(set(partitions)) == len(self._world.partitions):
            self.is_settled = True

    # Offsets

    def commits(self, where: TopicPartition, offset: int) -> None:
        """A member is about to ask for it."""
        self._asked.setdefault(where, set()).add(offset)

    def accepted(self, name: str, generation: int, newest: int) -> None:
        """A commit was accepted; `newest` is the newest generation that was known when it was sent (I16)."""
        if generation < newest and not self._world.plan.may_lose:
            raise Violation(16, f"{name} has committed in generation {generation}, and {newest} was known")

    def committed(self, where: TopicPartition, offset: int, life: int) -> None:
        """Of a commit that was accepted."""
        self._acknowledged[where] = offset, life

    def found(self, name: str, where: TopicPartition, offset: int) -> None:
        """A member that was given a partition asks where to begin (I17, I18)."""
        if offset >= 0 and offset not in self._asked.get(where, ()):
            raise Violation(17, f"{name} finds offset {offset} for {where}, which nobody has committed")
        high_watermark = self._world.model.partitions[where].high_watermark
        if offset > high_watermark and not self._world.plan.may_lose:
            raise Violation(18, f"{name} finds offset {offset} for {where}, whose high watermark is {high_watermark}")
        acknowledged, life = self._acknowledged.get(where, (-1, 0))
        # Requests that are late may bring former offsets back.
        if (
            offset < acknowledged
            and not self._world.plan.has_stalled_links
            and not self._world.may_have_lost_since(life)
        ):
            raise Violation(17, f"{name} finds offset {offset} for {where}, and {acknowledged} was acknowledged")

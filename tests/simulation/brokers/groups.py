"""The ledger of the one group in a world of brokers: what its members were told, and what must hold for the group.

Assignments and commits are compared across all lives and all coordinators, unless the world may lose records: then a
generation that was lost in a crash of the broker may occur again, with other members.
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
    """The partitions that a member has, as far as the coordinator knows."""

    life: int
    """See `ClientWorld.compared_life`."""
    generation: int
    """0 in a consumer group, where each member has an epoch of its own."""
    partitions: frozenset[TopicPartition]
    safe_until_ms: float
    """No coordinator can have taken the partitions away before this time."""


class _Grant(NamedTuple):
    """The last owner of a partition, as far as members know."""

    name: str
    generation: int
    """The generation, or the member's epoch, in which the owner got the partition."""
    since_ms: float
    """When the owner heard that it has the partition."""


class GroupLedger:
    """The ledger of one group."""

    def __init__(self, world: ClientWorld) -> None:
        self._world = world
        self._shared: dict[tuple[int, str], list[frozenset[TopicPartition]]] = {}
        self._owners: dict[tuple[int, int], dict[TopicPartition, str]] = {}
        """The owner of each partition, by life and generation, in a classic group."""
        self._holdings: dict[str, _Holding] = {}
        """The partitions of the current members, by member name."""
        self._grants: dict[TopicPartition, _Grant] = {}
        self.generation = -1
        """The newest generation that is known to be written, because a member of a classic group got its assignment."""
        self._asked: dict[TopicPartition, set[int]] = {}
        self._acknowledged: dict[TopicPartition, tuple[int, int]] = {}
        """The last offset whose commit was acknowledged, and the life in which it was acknowledged."""
        self.is_settled = False
        """Whether the members owned all partitions after the last fault."""
        self.must_keep = False
        """Whether no member may lose a partition (I19)."""
        self._changed_ms = 0.0
        """When the partitions of a member changed last."""

    # Classic groups

    def shares(self, generation: int, shares: Shares) -> None:
        """Records the assignment that a leader is about to send."""
        for member_id, partitions in shares.items():
            self._shared.setdefault((generation, member_id), []).append(partitions)

    def assigned(
        self,
        name: str,
        member_id: str,
        life: int,
        generation: int,
        partitions: frozenset[TopicPartition],
        *,
        safe_until_ms: float,
    ) -> None:
        """Records the assignment that a member received, and checks it (I15): no other member has a partition of it,
        neither in this generation nor, for certain, in another one."""
        if partitions not in self._shared.get((generation, member_id), ()):
            raise Violation(15, f"{name} was told what no leader of generation {generation} has given it")
        owners = self._owners.setdefault((life, generation), {})
        for where in partitions:
            owner = owners.setdefault(where, member_id)
            if owner != member_id:
                raise Violation(15, f"{where} is {owner}'s in generation {generation}, and {name} was given it")
        self._check_others(name, life, partitions, safe_until_ms)
        self.generation = max(self.generation, generation)
        self._grant(name, generation, partitions)
        self._hold(name, _Holding(life, generation, partitions, safe_until_ms))

    def is_safe_until(self, name: str, safe_until_ms: float) -> None:
        """Records that a member, with all its partitions, can't be removed before this time."""
        holding = self._holdings.get(name)
        if holding is not None:
            self._holdings[name] = holding._replace(safe_until_ms=safe_until_ms)

    # Consumer groups

    def says(self, name: str, partitions: Collection[TopicPartition]) -> None:
        """Removes the partitions that a member does not report any more to the coordinator."""
        holding = self._holdings.get(name)
        if holding is not None:
            self._hold(name, holding._replace(partitions=holding.partitions.intersection(partitions)))

    def told(
        self, name: str, life: int, epoch: int, partitions: frozenset[TopicPartition], safe_until_ms: float
    ) -> None:
        """Records the partitions that a member received in an epoch; no other member may have them (I15)."""
        self._check_others(name, life, partitions, safe_until_ms)
        before = self._holdings.get(name)
        kept = before.partitions if before is not None else frozenset()
        self._grant(name, epoch, partitions - kept)
        self._hold(name, _Holding(life, 0, partitions | kept, safe_until_ms))

    # Both kinds of groups

    def _check_others(self, name: str, life: int, partitions: frozenset[TopicPartition], safe_until_ms: float) -> None:
        """Checks that no other member has one of the partitions that a member received (I15).

        The member can't lose the partitions before `safe_until_ms`. An answer that arrives after that time may have
        been true when it was sent.
        """
        now_ms = self._world.loop.now_ms
        for other, holding in self._holdings.items():
            common = holding.partitions & partitions
            is_sure = holding.life == life and now_ms < min(safe_until_ms, holding.safe_until_ms)
            if other != name and common and is_sure:
                raise Violation(15, f"{name} was given {min(common)}, which {other} has until it says otherwise")

    def _grant(self, name: str, generation: int, partitions: Collection[TopicPartition]) -> None:
        for where in partitions:
            grant = self._grants.get(where)
            if grant is None or generation >= grant.generation:  # A late answer tells nothing of the present.
                self._grants[where] = _Grant(name, generation, self._world.loop.now_ms)

    def gives_up(self, name: str) -> None:
        """Records that a member has no partitions any more, as far as the member knows."""
        self._hold(name, None)

    def _hold(self, name: str, holding: _Holding | None) -> None:
        before = self._holdings.pop(name, None)
        if holding is not None:
            self._holdings[name] = holding
        if before is not None and holding is not None and before.partitions == holding.partitions:
            return
        self._changed_ms = self._world.loop.now_ms
        lost = frozenset() if before is None else before.partitions - (holding.partitions if holding else frozenset())
        if self.must_keep and lost:
            raise Violation(19, f"{name} has to stop reading {min(lost)}, and nothing has happened to the group")

    def look_whether_settled(self, members: int) -> None:
        """Sets `is_settled` if `members` members have all partitions after the last fault."""
        self.is_settled = self.is_settled or (self._world.is_ending and self._have_all(members))

    def rests(self, members: int, duration_ms: float) -> bool:
        """Returns whether `members` members have all partitions, nothing has changed for so long, and each of them is
        a member for certain."""
        now_ms = self._world.loop.now_ms
        is_certain = all(now_ms < holding.safe_until_ms for holding in self._holdings.values())
        return is_certain and self._have_all(members) and now_ms >= self._changed_ms + duration_ms

    def _have_all(self, members: int) -> bool:
        """Returns whether `members` members have all partitions, in one generation."""
        holdings = self._holdings.values()
        if len(holdings) < members or len({each.generation for each in holdings}) != 1:
            return False
        partitions = [where for each in holdings for where in each.partitions]
        return len(partitions) == len(set(partitions)) == len(self._world.partitions)

    # Offsets

    def commits(self, where: TopicPartition, offset: int) -> None:
        """Records an offset that a member is about to commit."""
        self._asked.setdefault(where, set()).add(offset)

    def accepted(self, name: str, where: TopicPartition, generation: int, newest: int, asked_ms: float) -> None:
        """Checks a commit that was sent at `asked_ms` and accepted (I15, I16).

        `generation` is the generation, or the member epoch, in the request. `newest` is the newest generation that was
        known when the request was sent.
        """
        if self._world.plan.may_lose:
            return
        if generation < newest:
            raise Violation(16, f"{name} has committed in generation {generation}, and {newest} was known")
        grant = self._grants.get(where)
        if grant is None or grant.name == name or grant.since_ms >= asked_ms:
            return
        if generation < grant.generation:
            raise Violation(
                16, f"{name} has committed {where} in {generation}, and {grant.name} got it in {grant.generation}"
            )
        holding = self._holdings.get(grant.name)
        if holding is not None and where in holding.partitions and self._world.loop.now_ms < holding.safe_until_ms:
            raise Violation(15, f"{name} has committed {where}, which {grant.name} has had since before")

    def committed(self, where: TopicPartition, offset: int, life: int) -> None:
        """Records the offset of an accepted commit."""
        self._acknowledged[where] = offset, life

    def found(self, name: str, where: TopicPartition, offset: int) -> None:
        """Checks the committed offset that a member fetched for its new partition (I17, I18).

        A member whose position is deleted goes on where the log begins. No client may have been told of a high
        watermark there, but only committed records are deleted (I4).
        """
        if offset >= 0 and offset not in self._asked.get(where, ()):
            raise Violation(17, f"{name} finds offset {offset} for {where}, which nobody has committed")
        partition = self._world.model.partitions[where]
        high_watermark = max(partition.high_watermark, partition.deleted)
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

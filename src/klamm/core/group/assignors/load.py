"""The assignor `load`: balances the cost of partitions as evenly as needed, and moves as few partitions as possible.

Each partition has a weight (`load_weights.py`). The load of a member is the sum of its partitions' weights. A target is
made in steps:

1. Each member keeps the partitions that it has and still reads.
2. Partitions without an owner, the heaviest first, go to the lightest reader. The previous owner, or a reader in a
   rack of the partition's replicas, is preferred if its load then does not exceed the average. These partitions may be
   exchanged among each other until that improves the balance by no more than one per cent.
3. Other partitions move only if the giver's load exceeds the taker's new load by more than the hysteresis. They move
   first to members that had no partitions; a returning one is offered its old partitions. If step 2 placed no
   partitions, or all of them, partitions then move to the lightest members, or are exchanged for lighter partitions (if
   members without partitions were served first, only if the heaviest load falls by the hysteresis). So a group that
   loses a member moves only that member's partitions. Partitions that moved less than the minimum dwell time ago stay.
4. Regardless of the weights, no member gets more than the bound (`load_bound.py`): the optimum plus the heaviest
   partition, which is at most twice the optimum.

Without any figures the result is that of `uniform`. All choices depend on the specification alone.
"""

from __future__ import annotations

from typing import Final

from klamm.core.group.assignors.assignor import Assignment, GroupSpec, MemberSpec
from klamm.core.group.assignors.load_balance import NO_OWNER, Balance
from klamm.core.group.assignors.load_bound import keep_bound
from klamm.core.group.assignors.load_settings import LoadSettings
from klamm.core.group.assignors.load_weights import Partition, load_of, partition_weights
from klamm.core.group.assignors.previous_owners import returning_owners
from klamm.core.group.assignors.subscriptions import NOTHING, assignable_members, check_topics
from klamm.core.group.assignors.uniform import UniformAssignor
from klamm.protocol.types import Millis, PartitionIndex, TopicId

__all__ = ["LoadAssignor", "is_improvement"]

_POLISH_PER_MILLE: Final = 10
_PER_MILLE: Final = 1000


class LoadAssignor:
    """The assignor `load`; see the module's docstring."""

    name = "load"

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Returns each member's target. Raises AssignorFailed for a topic that does not exist."""
        settings = LoadSettings.from_mapping(spec.settings)
        weights = partition_weights(spec, settings)
        if weights is None:
            return UniformAssignor().assign(spec)
        return _Target(spec, settings, weights).make()


def is_improvement(spec: GroupSpec, assigned_at: Millis) -> bool:
    """Returns whether a new target of `load` reduces the heaviest load enough to justify a rebalance.

    All of these conditions must hold: the minimum dwell time has passed since the present target was made, at
    `assigned_at`; there are figures; every partition has an owner, since otherwise a rebalance is due anyway; the
    heaviest load of the present target exceeds that of a new one by more than the hysteresis ratio.
    Raises AssignorFailed.
    """
    settings = LoadSettings.from_mapping(spec.settings)
    if spec.now - assigned_at < settings.min_dwell_ms:
        return False
    weights = partition_weights(spec, settings)
    if weights is None:
        return False
    target = _Target(spec, settings, weights)
    balance = target.balance
    if NO_OWNER in balance.owners or not balance.weights:
        return False
    present = max(balance.loads)
    worth_it = settings.hysteresis_ratio + 1
    if present <= worth_it * max(balance.average, *balance.weights):
        return False
    made = target.make()
    return present > worth_it * max(load_of(assignment, weights) for assignment in made.values())


class _Target:
    """A target while it is made. It begins with the partitions that members keep."""

    def __init__(self, spec: GroupSpec, settings: LoadSettings, weights: dict[Partition, int]) -> None:
        self.spec = spec
        self.settings = settings
        members = assignable_members(spec)
        self.member_ids = sorted(members)
        self.members = [members[member_id] for member_id in self.member_ids]
        kind_of, readers = _kinds(spec, self.members)
        self.partitions = [partition for partition in weights if partition[0] in kind_of]
        self.index = {partition: index for index, partition in enumerate(self.partitions)}
        self.balance = Balance(
            [weights[partition] for partition in self.partitions],
            [kind_of[topic_id] for topic_id, _ in self.partitions],
            [_racks(spec, partition) for partition in self.partitions],
            readers,
            [member.rack_id for member in self.members],
        )
        for member, specification in enumerate(self.members):
            for topic_id, partitions in specification.target.items():
                if topic_id in specification.topic_ids:
                    for partition in partitions:
                        self.balance.give(self.index[topic_id, partition], member)

    def make(self) -> dict[str, Assignment]:
        """Returns each member's target."""
        balance = self.balance
        places = {member_id: member for member, member_id in enumerate(self.member_ids)}
        returning = {
            self.index[partition]: places[member_id] for partition, member_id in returning_owners(self.spec).items()
        }
        free = [partition for partition, owner in enumerate(balance.owners) if owner == NO_OWNER]
        free.sort(key=lambda partition: (-balance.weights[partition], partition))
        is_new = len(free) == len(self.partitions)
        for partition in free:
            balance.place(partition, returning.get(partition))
        balance.improve([partition for partition in free if partition not in returning], _POLISH_PER_MILLE)
        newcomers = frozenset(member for member in balance.active if not self.members[member].target)
        per_mille = round(self.settings.hysteresis_ratio * _PER_MILLE)
        has_served = self._serve_newcomers(newcomers, returning, per_mille) if newcomers and not is_new else False
        may_even_out = is_new or not free
        if may_even_out:
            self._even_out(self._rested(returning), per_mille, is_asked_for=not has_served)
        if keep_bound(balance) and may_even_out:
            # Keeping the bound may allow more moves. A move that is worth it never increases the heaviest load.
            balance.improve(self._rested(returning), per_mille)
        return self._assignments()

    def _serve_newcomers(self, newcomers: frozenset[int], returning: dict[int, int], per_mille: int) -> bool:
        """Gives partitions that are worth moving to members that had none; returns whether any moved."""
        balance = self.balance
        has_changed = False
        for partition in sorted(returning, key=lambda partition: (-balance.weights[partition], partition)):
            holder, member = balance.owners[partition], returning[partition]
            if member not in newcomers or holder == member:
                continue
            if balance.is_worth_it(balance.weights[partition], holder, member, per_mille):
                balance.give(partition, member)
                has_changed = True
        return balance.improve(self._rested(returning), per_mille, newcomers) or has_changed

    def _even_out(self, partitions: list[int], per_mille: int, *, is_asked_for: bool) -> None:
        """Moves what is worth moving; unless `is_asked_for`, only if the heaviest load falls by the hysteresis."""
        balance = self.balance
        before, heaviest = list(balance.owners), max(balance.loads, default=0)
        balance.improve(partitions, per_mille)
        if is_asked_for or heaviest * _PER_MILLE > max(balance.loads, default=0) * (_PER_MILLE + per_mille):
            return
        for partition, owner in enumerate(before):
            if balance.owners[partition] != owner:
                balance.give(partition, owner)

    def _rested(self, returning: dict[int, int]) -> list[int]:
        """Returns what load alone may move: no recently moved partitions, and none that its previous owner got back."""
        limit = self.spec.now - self.settings.min_dwell_ms
        left = self.spec.previous_owners
        return [
            index
            for index, partition in enumerate(self.partitions)
            if returning.get(index) != self.balance.owners[index]
            and (partition not in left or left[partition].until <= limit)
        ]

    def _assignments(self) -> dict[str, Assignment]:
        result = dict.fromkeys(self.spec.members, NOTHING)
        made: list[dict[TopicId, list[PartitionIndex]]] = [{} for _ in self.members]
        for (topic_id, partition), owner in zip(self.partitions, self.balance.owners, strict=True):
            made[owner].setdefault(topic_id, []).append(partition)
        for member_id, member, topics in zip(self.member_ids, self.members, made, strict=True):
            target = {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            result[member_id] = member.target if target == member.target else target
        return result


def _kinds(spec: GroupSpec, members: list[MemberSpec]) -> tuple[dict[TopicId, int], list[tuple[int, ...]]]:
    """Returns the kind of each topic that has readers, and the readers of each kind."""
    by_subscription: dict[frozenset[TopicId], list[int]] = {}
    for member, specification in enumerate(members):
        by_subscription.setdefault(frozenset(specification.topic_ids), []).append(member)
    readers_of: dict[TopicId, list[int]] = {}
    for topic_ids, readers in by_subscription.items():
        check_topics(spec, sorted(topic_ids))
        for topic_id in topic_ids:
            readers_of.setdefault(topic_id, []).extend(readers)
    kinds: dict[tuple[int, ...], int] = {}
    kind_of = {
        topic_id: kinds.setdefault(tuple(sorted(readers_of[topic_id])), len(kinds)) for topic_id in sorted(readers_of)
    }
    return kind_of, list(kinds)


def _racks(spec: GroupSpec, partition: Partition) -> frozenset[str]:
    racks = spec.topics[partition[0]].racks
    return racks[partition[1]] if racks else frozenset()

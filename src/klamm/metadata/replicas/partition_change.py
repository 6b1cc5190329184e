"""Decides how a partition with several replicas changes: its in-sync replicas, its eligible leader replicas, its
leader.

Every change of such a partition is made by `change_partition`, whatever the reason: a proposal of the leader, a broker
that has gone or come back, a reassignment, an election on request.

- The leader is elected from the in-sync replicas, and if there are none, from the eligible leader replicas (KIP-966):
  both hold every committed record. If both sets are empty, the last known leader is elected once it is back. Any other
  live replica is elected only where `unclean.leader.election.enable` allows it. The last two may lose records, which
  `is_recovering` tells.
- A replica that leaves the in-sync replicas while there are fewer of them than `min.insync.replicas` becomes an
  eligible leader replica: from then on nothing is committed without it.

Source: `PartitionChangeBuilder` of Apache Kafka 4.3, whose leader epoch also stays when only the in-sync replicas
change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from klamm.metadata.image import NO_BROKER, PartitionImage
from klamm.protocol.types import BrokerId, LeaderEpoch

__all__ = ["Election", "ReplicaRules", "change_partition", "heir_of"]


class Election(Enum):
    """When the leader changes, and who may become it."""

    ONLINE = "online"
    """The leader stays while it may lead."""
    PREFERRED = "preferred"
    """The first replica leads if it may."""
    UNCLEAN = "unclean"
    """A replica that may lack committed records leads if no other one may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRules:
    """The rules for one partition: `may_lead` returns whether a broker is live, and not about to stop."""

    may_lead: Callable[[BrokerId], bool]
    min_insync_replicas: int
    is_unclean_allowed: bool = False


def change_partition(
    partition: PartitionImage,
    rules: ReplicaRules,
    *,
    isr: Collection[BrokerId] | None = None,
    replicas: Sequence[BrokerId] | None = None,
    adding: Sequence[BrokerId] | None = None,
    removing: Sequence[BrokerId] | None = None,
    unclean_stops: Collection[BrokerId] = (),
    election: Election = Election.ONLINE,
) -> PartitionImage:
    """Returns the partition after a change, with a higher partition epoch; the same object if nothing changes.

    `isr`: the in-sync replicas as they should be. `replicas`, `adding` and `removing`: those of a reassignment that
    begins or is cancelled. `unclean_stops`: brokers that may have lost records, so that they are no eligible leader
    replicas. A reassignment ends as soon as the added replicas are in sync; if it leaves fewer replicas, as soon as all
    that remain are.
    """
    wanted = replace(
        partition,
        replicas=partition.replicas if replicas is None else tuple(replicas),
        adding=partition.adding if adding is None else tuple(adding),
        removing=partition.removing if removing is None else tuple(removing),
        isr=partition.isr if isr is None else tuple(isr),
    )
    wanted = _in_order(_end_reassignment(wanted))
    wanted = _elect(partition, wanted, rules, unclean_stops, election)
    if wanted == partition:
        return partition
    has_lost_replica = not set(partition.replicas) <= set(wanted.replicas)
    epoch = wanted.leader_epoch
    if wanted.leader != partition.leader or has_lost_replica:
        # A replica that was removed may still follow: the higher epoch fences it.
        epoch = LeaderEpoch(partition.leader_epoch + 1)
    return replace(wanted, leader_epoch=epoch, partition_epoch=partition.partition_epoch + 1)


def _in_order(partition: PartitionImage) -> PartitionImage:
    """Returns the in-sync replicas in the order of the replicas, without others."""
    return replace(partition, isr=tuple(each for each in partition.replicas if each in partition.isr))


def _end_reassignment(partition: PartitionImage) -> PartitionImage:
    if not partition.adding and not partition.removing:
        return partition
    remaining = tuple(each for each in partition.replicas if each not in partition.removing)
    in_sync = [each for each in partition.isr if each in remaining]
    if not in_sync or not set(partition.adding) <= set(in_sync):
        return partition
    if len(partition.adding) < len(partition.removing) and len(in_sync) < len(remaining):
        return partition  # otherwise a replica in sync would leave the records to fewer replicas than it should
    return replace(partition, replicas=remaining, isr=tuple(in_sync), adding=(), removing=())


def _eligible_leaders(
    before: PartitionImage, wanted: PartitionImage, rules: ReplicaRules, unclean_stops: Collection[BrokerId]
) -> tuple[BrokerId, ...]:
    """Returns the eligible leader replicas next to the in-sync replicas of `wanted`."""
    if len(wanted.isr) >= min(rules.min_insync_replicas, len(wanted.replicas)):
        return ()
    candidates = {*before.elr, *before.isr}.difference(wanted.isr, unclean_stops)
    return tuple(each for each in wanted.replicas if each in candidates)


def _last_known_leader(before: PartitionImage, wanted: PartitionImage, elr: tuple[BrokerId, ...]) -> BrokerId:
    """Returns which replica leads if no other one is known to have every committed record.

    A broker that is no replica any more deletes its log, so it is not that replica, also if it is added again.
    """
    last = before.last_known_leader if before.leader == NO_BROKER else before.leader
    if last == NO_BROKER or last in wanted.replicas:
        return last
    return heir_of(wanted.isr, elr)


def heir_of(isr: Sequence[BrokerId], elr: Sequence[BrokerId]) -> BrokerId:
    """Returns the last known leader in place of one that has no log any more: a replica that holds every committed
    record, if there is one. It may be the next that loses its places.
    """
    return next(iter((*isr, *elr)), NO_BROKER)


def _elect(
    before: PartitionImage,
    wanted: PartitionImage,
    rules: ReplicaRules,
    unclean_stops: Collection[BrokerId],
    election: Election,
) -> PartitionImage:
    """Returns the partition with its leader, and with the eligible leader replicas that follow from it."""
    elr = _eligible_leaders(before, wanted, rules, unclean_stops)
    is_unclean_allowed = rules.is_unclean_allowed or election is Election.UNCLEAN
    # Eligible leader replicas may lack records that in-sync replicas have and that are not committed.
    holders = wanted.isr or elr
    if is_unclean_allowed and not any(map(rules.may_lead, holders)):
        # The in-sync replicas are away, and are not removed yet. An eligible leader replica loses nothing.
        holders = (*wanted.isr, *elr)
    preferred = wanted.replicas[:1] if election is Election.PREFERRED else ()
    for leader in (*preferred, before.leader, *wanted.replicas):
        if leader in holders and rules.may_lead(leader):
            # A leader that was not in sync is alone at first.
            led = replace(wanted, leader=leader, isr=wanted.isr if leader in wanted.isr else (leader,))
            is_recovering = before.is_recovering and led.isr == before.isr and leader == before.leader
            elr = _eligible_leaders(before, led, rules, unclean_stops)
            return replace(led, elr=elr, last_known_leader=NO_BROKER, is_recovering=is_recovering)
    last = _last_known_leader(before, wanted, elr)
    leader = NO_BROKER
    if not holders and last != NO_BROKER and rules.may_lead(last):
        leader = last
    elif is_unclean_allowed:
        leader = next((each for each in wanted.replicas if rules.may_lead(each)), NO_BROKER)
    if leader == NO_BROKER:
        return replace(wanted, leader=NO_BROKER, elr=elr, last_known_leader=last)
    return replace(wanted, leader=leader, isr=(leader,), elr=(), last_known_leader=NO_BROKER, is_recovering=True)

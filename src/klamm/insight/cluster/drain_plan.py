"""Plans how all replicas of a broker move to other brokers. A pure function: the same cluster gives the same plan.

Only replicas of this broker move. Each goes to the broker with these properties, in this order: no replica of the
partition in its rack, the fewest replicas, the fewest bytes, the lowest id. Large partitions come first, because small
ones can even out what the large ones leave.
"""

from __future__ import annotations

from klamm.insight.cluster.replica_layout import PartitionMove, ReplicaLayout
from klamm.insight.cluster.replica_plan import ImpossiblePlan
from klamm.insight.words import PartitionKey, count

__all__ = ["plan_drain"]


def plan_drain(layout: ReplicaLayout, leaving: int) -> list[PartitionMove]:
    """Returns the moves after which broker `leaving` has no replica. Every partition keeps its number of replicas.

    Raises ImpossiblePlan if too few other brokers can get replicas.
    """
    targets = [broker for broker in layout.targets if broker != leaving]
    if not targets:
        raise ImpossiblePlan(f"no other broker can get the replicas of broker {leaving}: add a broker first")
    loads = layout.loads()
    replicas = {broker: loads[broker].replicas for broker in targets}
    leaders = {broker: load.leaders for broker, load in loads.items()}
    sizes = {broker: loads[broker].size_bytes for broker in targets}
    wanted: dict[PartitionKey, list[int]] = {}
    keys = [key for key, brokers in layout.replicas.items() if leaving in brokers]
    for key in sorted(keys, key=lambda key: (-layout.size(key), key)):
        planned = list(layout.replicas[key])
        free = [broker for broker in targets if broker not in planned]
        if not free:
            raise _too_few(key, planned, leaving)
        racks = {layout.rack(broker) for broker in planned if broker != leaving}
        chosen = min(free, key=lambda broker: (layout.rack(broker) in racks, replicas[broker], sizes[broker], broker))
        replicas[chosen] += 1
        sizes[chosen] += layout.size(key)
        place = planned.index(leaving)
        planned[place] = chosen
        if place == 0:
            _prefer_least_leader(planned, targets, leaders)
        wanted[key] = planned
    return layout.moves_to(wanted)


def _prefer_least_leader(planned: list[int], targets: list[int], leaders: dict[int, int]) -> None:
    """Moves the broker to the front that is the preferred leader of the fewest partitions."""
    first = min(range(len(planned)), key=lambda place: (planned[place] not in targets, leaders[planned[place]], place))
    planned.insert(0, planned.pop(first))
    leaders[planned[0]] += 1


def _too_few(key: PartitionKey, planned: list[int], leaving: int) -> ImpossiblePlan:
    others = len(planned) - 1
    return ImpossiblePlan(
        f"{key[0]}-{key[1]} has {count(len(planned), 'replica')}, and without broker {leaving} only "
        f"{count(others, 'broker')} can have them: add a broker, or give the topic fewer replicas first"
    )

"""Rebalances that load alone causes.

From time to time a caller with a clock hands in the traffic of the partitions. For each group
that is assigned by load, the present target is then compared with a new one, one group a step. If the new target is
much better, so that moving partitions is worth it, the group epoch rises. Other groups keep their target. Large groups
are weighed in a background task, which also makes their targets.
"""

from __future__ import annotations

from dataclasses import dataclass

from klamm.core.coordinator.shard_contract import Result
from klamm.core.group.assignors.assignor import AssignorFailed
from klamm.core.group.assignors.load import LoadAssignor, is_improvement
from klamm.core.group.consumer.assignor_input import Description, describe
from klamm.core.group.consumer.changed_subscriptions import at_present, preferred_assignor
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_groups import CauseDetails, ConsumerGroups, Decision
from klamm.core.group.consumer.group_epoch import raise_epoch
from klamm.core.group.consumer.group_state import ConsumerGroupState
from klamm.core.group.consumer.target_assignment import INLINE_LIMIT
from klamm.core.group.consumer.timers import LOAD_TIMER, target_timer
from klamm.core.group.events import Cause, Remark
from klamm.core.group.follow_ups import retry_on_failure
from klamm.core.group.partition_traffic import Traffic
from klamm.protocol.types import Millis

__all__ = ["WeighLoad", "on_load_timer", "on_traffic", "on_weighed"]


@dataclass(frozen=True, slots=True, repr=False)
class WeighLoad:
    """The background task that weighs a large group: is another assignment worth a rebalance?"""

    owner_id: str
    epoch: int
    described: Description
    assigned_at_ms: Millis

    def run(self) -> bool:
        """Returns whether it is."""
        return is_improvement(self.described.specification(), self.assigned_at_ms)


def on_traffic(groups: ConsumerGroups, traffic: Traffic, result: Result) -> None:
    """Stores the figures and starts to check the groups that are assigned by load."""
    groups.traffic = traffic
    groups.to_weigh = list(groups.store.groups)
    if groups.to_weigh:
        result.arm(LOAD_TIMER, 0)


def on_load_timer(decision: Decision) -> None:
    """Weighs the next group that is assigned by load; checks a limited number of groups, as there may be very many."""
    groups, result, _ = decision
    for _ in range(min(len(groups.to_weigh), groups.config.looks_per_step)):
        group = groups.get(groups.to_weigh.pop())
        if group is not None and _is_by_load(groups, group) and _rests(groups, group):
            _weigh(decision, group)
            break
    if groups.to_weigh:
        result.arm(LOAD_TIMER, 0)


def _weigh(decision: Decision, group: ConsumerGroup) -> None:
    groups, result, now = decision
    group_id = group.group_id
    described = describe(groups, group, None, None, now, is_by_load=True)
    task = WeighLoad(group_id, group.epoch, described, group.assigned_at_ms)
    if described.size > INLINE_LIMIT:
        result.tasks.append(task)
        return
    try:
        is_worth_it = task.run()
    except AssignorFailed as failure:
        result.events.append(Remark(group_id, f"the load could not be weighed: {failure}"))
        return
    if is_worth_it:
        _rebalance(decision, group)


def on_weighed(decision: Decision, task: WeighLoad, outcome: bool | BaseException) -> None:
    """Starts a rebalance if the weighing of a large group calls for one and the group has not changed meanwhile."""
    groups, result, _ = decision
    group_id, epoch = task.owner_id, task.epoch
    group = groups.get(group_id)
    if isinstance(outcome, BaseException):
        result.events.append(Remark(group_id, f"the load could not be weighed: {outcome!r}"))
    elif outcome and group is not None and group.epoch == epoch and _rests(groups, group):
        _rebalance(decision, group)


def _rebalance(decision: Decision, group: ConsumerGroup) -> None:
    cause = CauseDetails(Cause.LOAD_REBALANCED, "the load of the members differs by more than the hysteresis")
    raise_epoch(decision, group, at_present(group), [cause], member_id=None, member_ids=list(group.members))
    decision.result.arm(target_timer(group.group_id), 0)
    retry_on_failure(decision.result, LOAD_TIMER)


def _is_by_load(groups: ConsumerGroups, group: ConsumerGroup) -> bool:
    return bool(group.members) and preferred_assignor(group, None, None, groups.default_assignor) == LoadAssignor.name


def _rests(groups: ConsumerGroups, group: ConsumerGroup) -> bool:
    return group.state is ConsumerGroupState.STABLE and group.group_id not in groups.outdated

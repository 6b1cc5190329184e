"""Time takes what nobody needs any more: old offsets, and empty groups that have none.

All groups are looked through, in steps; a group of very many offsets takes several. After Apache Kafka's
`GroupCoordinatorShard.cleanupGroupMetadata`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from klamm.core.coordinator.shard_contract import Result
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.group_registry import GroupRegistry
from klamm.core.group.removal.removal_rules import expire_group, expire_offsets
from klamm.protocol.types import Millis

__all__ = ["expire_groups"]


def expire_groups(
    groups: GroupRegistry, config: GroupCoordinatorConfig, clock: Callable[[], Millis]
) -> Iterator[Result]:
    """Look at every group once. `clock` says when each step is made."""
    store, limit = groups.store, config.looks_per_step
    result, looks = Result(atomic=False), 0
    for group_id in [*store.groups, *store.consumer_groups]:
        size = 1 + store.offset_count(group_id)
        if looks + size > limit:
            yield result
            result, looks = Result(atomic=False), 0
        if not groups.is_known(group_id):
            continue  # It went meanwhile.
        if size > limit:
            yield from _expire_in_steps(groups, group_id, config, clock)
            if not groups.is_known(group_id) or store.offset_count(group_id) > limit:
                continue
        looks += size
        expire_group(groups, group_id, config.offsets_retention_of(group_id), result, clock())
    yield result


def _expire_in_steps(
    groups: GroupRegistry, group_id: str, config: GroupCoordinatorConfig, clock: Callable[[], Millis]
) -> Iterator[Result]:
    """The offsets of a large group, some of them at a time; the group itself stays."""
    retention_ms = config.offsets_retention_of(group_id)
    result, looks = Result(atomic=False), 0
    for topic in list(groups.store.offsets_of(group_id)):
        partitions = list(groups.store.offsets_of(group_id).get(topic, ()))
        for start in range(0, len(partitions), config.looks_per_step):
            some = partitions[start : start + config.looks_per_step]
            if looks + len(some) > config.looks_per_step:
                yield result
                result, looks = Result(atomic=False), 0
            # Whoever joined or left meanwhile may have changed what may go.
            if not groups.is_known(group_id):
                return
            group = groups.peek(group_id)
            if not group.may_expire:
                return
            looks += len(some)
            expire_offsets(groups, group, topic, some, retention_ms=retention_ms, result=result, now=clock())
    yield result

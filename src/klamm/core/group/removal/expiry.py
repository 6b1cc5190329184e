"""Expiry of old offsets, and of empty groups without offsets.

All groups are checked, in steps; a group with very many offsets takes several steps. After Apache Kafka's
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
    """Yields the steps that check every group once. `clock` gives the time of each step."""
    store, limit = groups.store, config.looks_per_step
    result, looks = Result(atomic=False), 0
    for group_id in store.group_ids():
        size = 1 + store.offset_count(group_id)
        if looks + size > limit:
            yield result
            result, looks = Result(atomic=False), 0
        if not groups.is_known(group_id):
            continue  # It was removed meanwhile.
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
    """Yields the steps that expire the offsets of a large group; the group itself stays."""
    retention_ms = config.offsets_retention_of(group_id)
    result, looks = Result(atomic=False), 0
    for topic in list(groups.store.offsets_of(group_id)):
        partitions = list(groups.store.offsets_of(group_id).get(topic, ()))
        for start in range(0, len(partitions), config.looks_per_step):
            some = partitions[start : start + config.looks_per_step]
            if looks + len(some) > config.looks_per_step:
                yield result
                result, looks = Result(atomic=False), 0
            # Members that joined or left meanwhile may have changed which offsets may expire.
            if not groups.is_known(group_id):
                return
            group = groups.peek(group_id)
            if not group.may_expire:
                return
            looks += len(some)
            expire_offsets(groups, group, topic, some, retention_ms=retention_ms, result=result, now=clock())
    yield result

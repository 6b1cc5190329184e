"""Measures the groups that this broker coordinates: lag, rates, and how many members a group needs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

from klamm.core.group.assignors.load_settings import LoadSettings
from klamm.core.group.group_config import GroupConfigOf
from klamm.core.group.group_meter import GroupFigures, GroupMeter
from klamm.core.group.partition_traffic import Traffic
from klamm.runtime.coordinator_runtime import CoordinatorRuntime
from klamm.runtime.ports import WallClock

if TYPE_CHECKING:
    from klamm.core.group.shard import GroupShard

__all__ = ["GroupMeasurements"]


class GroupMeasurements:
    """The figures of all groups, from the latest traffic of the partitions.

    `shard_of` returns the shard of a group id, None if its partition is not led here or not loaded yet.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShard],
        shard_of: Callable[[str], GroupShard | None],
        group_config_of: GroupConfigOf,
        wall_clock: WallClock,
    ) -> None:
        self._runtime = runtime
        self._shard_of = shard_of
        self._group_config_of = group_config_of
        self._wall_clock = wall_clock
        self._traffic: Traffic = {}
        self._meter = GroupMeter()

    def on_traffic(self, traffic: Traffic) -> None:
        """Stores the latest traffic, and has the shards check the groups that are assigned by load."""
        self._traffic = traffic
        self._runtime.tell(lambda shard, now: shard.on_traffic(traffic, now))

    def figures(self) -> Iterator[GroupFigures | None]:
        """Measures every group led here, in steps.

        None is yielded for each step of a large group except the last one.
        """
        seen: set[str] = set()
        for shard in self._runtime.shards():
            for group_id in shard.store.group_ids():
                if shard.groups.is_known(group_id):  # The group may have been deleted between two steps.
                    seen.add(group_id)
                    yield (yield from self._measure(shard, group_id))
        yield from self._meter.forget_others(seen)

    def figures_of(self, group_id: str) -> Generator[None, None, GroupFigures | None]:
        """Measures one group, in steps; returns None if it is not led here, or not loaded yet."""
        shard = self._shard_of(group_id)
        if shard is None or not shard.groups.is_known(group_id):
            return None
        return (yield from self._measure(shard, group_id))

    def _measure(self, shard: GroupShard, group_id: str) -> Generator[None, None, GroupFigures]:
        return self._meter.measure(
            group_id,
            shard.groups.member_count(group_id),
            shard.store.offsets_of(group_id),
            self._traffic,
            settings=LoadSettings.from_mapping(self._group_config_of(group_id).load),
            now=self._wall_clock(),
        )

"""A group shard whose events are turned into history records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.unit.core.group.shard_driver import ShardDriver

from klamm.core.group.history.history_record import history_record
from klamm.core.group.history.trackers import GroupTrackers
from klamm.protocol.types import LeaderEpoch, PartitionIndex

__all__ = ["ShardHistory"]

P0 = PartitionIndex(0)


class ShardHistory(ShardDriver):
    """A driver that collects `records` in order; `reload` starts the next coordinator epoch with the same list."""

    def __init__(self, *args: Any, records: list[dict[str, Any]] | None = None, epoch: int = 0, **kwargs: Any) -> None:
        self.records: list[dict[str, Any]] = [] if records is None else records
        self.epoch = LeaderEpoch(epoch)
        self.trackers = GroupTrackers()
        super().__init__(*args, **kwargs)

    def publish(self, events: Sequence[object]) -> None:
        super().publish(events)
        for change in self.trackers.take(P0, events):
            committed = self.shard.store.offsets_of(change.group_id)
            self.records.append(history_record(change, self.epoch, committed))

    def reload(self) -> ShardHistory:
        return ShardHistory(
            self.config,
            log=self.log,
            now=self.now,
            ids=self._ids,
            topics=self.topics,
            records=self.records,
            epoch=self.epoch + 1,
        )

    # Records for assertions

    @property
    def last(self) -> dict[str, Any]:
        return self.records[-1]

    def outcomes(self) -> list[tuple[str, int, int]]:
        return [(record["outcome"], record["previous_epoch"], record["epoch"]) for record in self.records]

    def causes(self) -> list[tuple[str, str | None]]:
        return [(cause["code"], cause["member"]) for cause in self.last["causes"]]

    def texts(self) -> list[str]:
        return [cause["text"] for cause in self.last["causes"]]

    def pauses(self) -> dict[str, int]:
        return {pause["member"]: pause["ms"] for pause in self.last["pauses"]}

    def moved(self) -> dict[int, tuple[str | None, str | None, int | None]]:
        return {move["partition"]: (move["from"], move["to"], move["committed_offset"]) for move in self.last["moved"]}

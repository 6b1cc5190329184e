"""I17 and I18: a group fetches the offset that was acknowledged last, and no offset above the end of the partition.

Each commit that reaches a coordinator is a write to one register per partition, and gets a number there. Coordinators
decide requests in the order of arrival. A write is open until its answer. If it is acknowledged, it stands, and
replaces all earlier writes. If it is refused, it is gone. If it fails later, or is never answered, it may stand or not.
The removal of an offset (a deleted topic, an administrator, expiry) is a write too. It stands when its tombstone is
committed.

A fetch may return the last write that stands, or a later open write. From then on the returned write stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.simulation.notes import in_words
from tests.simulation.violation import Violation

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponseGroup
from klamm.protocol.types import Offset, PartitionIndex, TopicId

__all__ = ["Allowed", "OffsetKey", "Offsets", "Write"]

OffsetKey = tuple[str, TopicId, int]
"""Group, topic and partition. A topic that is created again under an old name is another topic."""

NOTHING = -1


class Write(NamedTuple):
    """One commit for one partition, or the removal of its committed offset."""

    number: int
    offset: int
    """The offset that a fetch returns if this write stands: -1 after a removal."""


class _Register:
    __slots__ = ("open", "standing")

    def __init__(self) -> None:
        self.standing = Write(0, NOTHING)
        self.open: list[Write] = []

    def settle(self, write: Write) -> None:
        if write.number > self.standing.number:
            self.standing = write
            self.open = [each for each in self.open if each.number > write.number]

    def withdraw(self, write: Write) -> None:
        if write in self.open:
            self.open.remove(write)


Allowed = dict[OffsetKey, list[Write]]
"""The results that a fetch may have, given the time of its decision."""


class Offsets:
    """The registers of all groups."""

    def __init__(self) -> None:
        self._registers: dict[OffsetKey, _Register] = {}
        self._number = 0
        self._removals: list[tuple[PartitionIndex, Offset, OffsetKey, Write]] = []

    # Commits

    def begin_commit(self, offsets: Iterable[tuple[OffsetKey, int]]) -> dict[OffsetKey, Write]:
        """Opens the writes of a commit that has reached its coordinator."""
        return {key: self._open(key, offset) for key, offset in offsets}

    def end_commit(
        self, writes: dict[OffsetKey, Write], group_id: str, response: OffsetCommitResponse, *, is_certain: bool
    ) -> None:
        """Settles or withdraws the writes of an answered commit. `is_certain`: after a failure, certainly nothing was
        written.
        """
        for topic in response.topics:
            for partition in topic.partitions:
                key = (group_id, TopicId(topic.topic_id), partition.partition_index)
                write = writes.get(key)
                if write is None:
                    continue
                if partition.error_code == ErrorCode.NONE:
                    self._registers[key].settle(write)
                elif is_certain:
                    self._registers[key].withdraw(write)

    # Removals

    def begin_removal(self, partition: PartitionIndex, record_offset: Offset, key: OffsetKey) -> None:
        """Opens the write of a tombstone."""
        self._removals.append((partition, record_offset, key, self._open(key, NOTHING)))

    def on_high_watermark(self, partition: PartitionIndex, high_watermark: Offset) -> None:
        """Settles the tombstones below the high watermark."""
        rest = []
        for removal in self._removals:
            if removal[0] == partition and removal[1] < high_watermark:
                self._registers[removal[2]].settle(removal[3])
            else:
                rest.append(removal)
        self._removals = rest

    def on_truncated(self, partition: PartitionIndex, end_offset: Offset) -> None:
        """Withdraws the tombstones from the new end offset on."""
        rest = []
        for removal in self._removals:
            if removal[0] == partition and removal[1] >= end_offset:
                self._registers[removal[2]].withdraw(removal[3])
            else:
                rest.append(removal)
        self._removals = rest

    # Fetches

    def allowed(self, keys: Iterable[OffsetKey]) -> Allowed:
        """Returns the results that a fetch may have if it is decided now."""
        allowed = {}
        for key in keys:
            register = self._registers.get(key)
            allowed[key] = [Write(0, NOTHING)] if register is None else [register.standing, *register.open]
        return allowed

    def end_fetch(self, allowed: Allowed, response: OffsetFetchResponseGroup) -> None:
        """Checks the answer to a fetch."""
        for topic in response.topics:
            for partition in topic.partitions:
                key = (response.group_id, TopicId(topic.topic_id), partition.partition_index)
                if partition.error_code or key not in allowed:
                    continue
                found = next((write for write in allowed[key] if write.offset == partition.committed_offset), None)
                if found is None:
                    written = [write.offset for write in allowed[key]]
                    raise Violation(
                        17,
                        f"{in_words(key)} was fetched as {partition.committed_offset};"
                        f" what was acknowledged, or may have been written: {written}",
                    )
                register = self._registers.get(key)
                if register is not None:
                    register.settle(found)

    def standing(self, key: OffsetKey) -> int:
        """Returns the offset that was acknowledged last."""
        register = self._registers.get(key)
        return NOTHING if register is None else register.standing.offset

    def _open(self, key: OffsetKey, offset: int) -> Write:
        self._number += 1
        write = Write(self._number, offset)
        self._registers.setdefault(key, _Register()).open.append(write)
        return write

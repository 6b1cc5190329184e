"""I17 and I18: what a group fetches is what was last acknowledged, and never more than there is to read.

Each commit that reaches a coordinator is a write of one register for each partition it names, and gets a number there:
coordinators decide in the order in which requests arrive. A write is open until its answer: acknowledged it stands, and
every earlier one is superseded; refused it is gone; failed later, or never answered, it may stand or not. What removes
offsets (a topic deleted, an administrator, time) is a write too, which stands once its tombstone is committed.

A fetch may see the last write that stands, or an open one after it; from then on that one stands.
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
"""Group, topic and partition. A topic that is made anew under an old name is another one."""

NOTHING = -1


class Write(NamedTuple):
    """One commit for one partition, or the removal of what was committed."""

    number: int
    offset: int
    """What a fetch returns if this stands: -1 after a removal."""


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
"""What a fetch that was decided at some moment may return."""


class Offsets:
    """The registers of all groups."""

    def __init__(self) -> None:
        self._registers: dict[OffsetKey, _Register] = {}
        self._number = 0
        self._removals: list[tuple[PartitionIndex, Offset, OffsetKey, Write]] = []

    # Commits

    def begin_commit(self, offsets: Iterable[tuple[OffsetKey, int]]) -> dict[OffsetKey, Write]:
        """A commit has reached its coordinator."""
        return {key: self._open(key, offset) for key, offset in offsets}

    def end_commit(
        self, writes: dict[OffsetKey, Write], group_id: str, response: OffsetCommitResponse, *, is_certain: bool
    ) -> None:
        """The coordinator has answered. Of a failure it is certain that nothing was written, or not."""
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
        """A tombstone was written."""
        self._removals.append((partition, record_offset, key, self._open(key, NOTHING)))

    def on_high_watermark(self, partition: PartitionIndex, high_watermark: Offset) -> None:
        """Tombstones below it stand."""
        rest = []
        for removal in self._removals:
            if removal[0] == partition and removal[1] < high_watermark:
                self._registers[removal[2]].settle(removal[3])
            else:
                rest.append(removal)
        self._removals = rest

    def on_truncated(self, partition: PartitionIndex, end_offset: Offset) -> None:
        """Tombstones from there on never were."""
        rest = []
        for removal in self._removals:
            if removal[0] == partition and removal[1] >= end_offset:
                self._registers[removal[2]].withdraw(removal[3])
            else:
                rest.append(removal)
        self._removals = rest

    # Fetches

    def allowed(self, keys: Iterable[OffsetKey]) -> Allowed:
        """What a fetch that is decided now may return."""
        allowed = {}
        for key in keys:
            register = self._registers.get(key)
            allowed[key] = [Write(0, NOTHING)] if register is None else [register.standing, *register.open]
        return allowed

    def end_fetch(self, allowed: Allowed, response: OffsetFetchResponseGroup) -> None:
        """The coordinator has answered."""
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
        """What was acknowledged last."""
        register = self._registers.get(key)
        return NOTHING if register is None else register.standing.offset

    def _open(self, key: OffsetKey, offset: int) -> Write:
        self._number += 1
        write = Write(self._number, offset)
        self._registers.setdefault(key, _Register()).open.append(write)
        return write

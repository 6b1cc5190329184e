"""A client that reads the offsets which transactional producers have committed for their groups."""

from __future__ import annotations

from typing import Final

from tests.simulation.brokers.clients.base import Participant
from tests.simulation.brokers.clients.client import Coordinator

from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse
from klamm.protocol.types import PartitionIndex, TopicPartition

__all__ = ["OffsetReader"]

_GROUP: Final = 0


class OffsetReader(Participant):
    """A client that fetches the offsets of all groups repeatedly, and once more at the end."""

    is_reader = True

    def ceilings(self) -> dict[int, int]:
        return {9: 9}

    async def live(self) -> None:
        world = self.world
        while not world.is_quiet:
            await world.think()
            await self._look(require_stable=self.random.random() < 0.3)
        self.found = await self._look(require_stable=True)
        self.is_finished = True

    async def _look(self, *, require_stable: bool) -> dict[tuple[str, TopicPartition], int]:
        transactions = self.world.transactions
        found: dict[tuple[str, TopicPartition], int] = {}
        groups = []
        for group_id, partitions in transactions.groups.items():
            topics: dict[str, OffsetFetchRequestTopics] = {}
            for topic, index in sorted(partitions):
                topics.setdefault(topic, OffsetFetchRequestTopics(name=topic)).partition_indexes.append(index)
            groups.append(OffsetFetchRequestGroup(group_id=group_id, topics=list(topics.values())))
        if not groups:
            return found
        if self.client.has_one_broker:
            answers = [await self._ask(groups, require_stable=require_stable)]
        else:
            answers = [await self._ask([group], require_stable=require_stable) for group in groups]
        for group in (group for answer in answers for group in answer.groups):
            for one in group.topics:
                for partition in one.partitions:
                    where = TopicPartition(one.name, PartitionIndex(partition.partition_index))
                    offset = max(partition.committed_offset, 0)
                    transactions.offset_shown(group.group_id, where, offset)
                    found[group.group_id, where] = offset
        self.note("finds %s", sorted((group_id, str(where), offset) for (group_id, where), offset in found.items()))
        return found

    async def _ask(self, groups: list[OffsetFetchRequestGroup], *, require_stable: bool) -> OffsetFetchResponse:
        return await self.until_answered(
            OffsetFetchRequest(groups=groups, require_stable=require_stable),
            OffsetFetchResponse,
            _codes,
            to=Coordinator(_GROUP, groups[0].group_id),
        )


def _codes(answer: OffsetFetchResponse) -> list[int]:
    codes = [group.error_code for group in answer.groups]
    return codes + [
        partition.error_code for group in answer.groups for topic in group.topics for partition in topic.partitions
    ]

"""A client that commits rising offsets for a group without members, and fetches them again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.simulation.brokers.clients.base import Participant
from tests.simulation.brokers.clients.client import Coordinator
from tests.simulation.violation import Violation

from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse

__all__ = ["Committer"]

_GROUP: Final = 0


class Committer(Participant):
    """A client that must find the last offset that it committed (I17)."""

    asked = 0
    """The last offset that the client has sent."""
    acknowledged = 0
    """The last offset whose commit was acknowledged."""

    def ceilings(self) -> dict[int, int]:
        return {8: 9, 9: 9}

    async def live(self) -> None:
        request = FindCoordinatorRequest(coordinator_keys=[self.name])
        await self.until_answered(
            request, FindCoordinatorResponse, lambda answer: (one.error_code for one in answer.coordinators)
        )
        where, coordinator = self.world.partitions[0], Coordinator(_GROUP, self.name)
        while True:
            is_last = self.world.is_ending
            self.asked = asked = self.asked + 1
            partition = OffsetCommitRequestPartition(partition_index=where.partition, committed_offset=asked)
            topic = OffsetCommitRequestTopic(name=where.topic, partitions=[partition])
            life = self.world.life
            await self.until_answered(
                OffsetCommitRequest(group_id=self.name, topics=[topic]),
                OffsetCommitResponse,
                _codes_of_commit,
                to=coordinator,
            )
            self.acknowledged = asked
            wanted = OffsetFetchRequestTopics(name=where.topic, partition_indexes=[where.partition])
            answer = await self.until_answered(
                OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.name, topics=[wanted])]),
                OffsetFetchResponse,
                lambda answer: (group.error_code for group in answer.groups),
                to=coordinator,
            )
            found = answer.groups[0].topics[0].partitions[0].committed_offset
            self.note("has committed %d, and finds %d", asked, found)
            # A delayed request may restore an earlier offset.
            is_late_possible = self.world.plan.has_stalled_links
            if found > asked or (found < asked and not is_late_possible and not self.world.may_have_lost_since(life)):
                raise Violation(17, f"{self.name} has committed {asked}, and finds {found}")
            if is_last:
                break
            await self.world.think()
        self.is_finished = True


def _codes_of_commit(answer: OffsetCommitResponse) -> Iterator[int]:
    for topic in answer.topics:
        for partition in topic.partitions:
            yield partition.error_code

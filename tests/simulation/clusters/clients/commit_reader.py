"""A client that reads the offsets of a committer. It may still ask a broker that does not coordinate the group any
more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.brokers.clients.base import Participant
from tests.simulation.brokers.clients.client import Coordinator
from tests.simulation.brokers.clients.committer import Committer
from tests.simulation.violation import Violation

from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse

if TYPE_CHECKING:
    from tests.simulation.clusters.world import ClusterWorld

__all__ = ["CommitReader"]

_GROUP: Final = 0


class CommitReader(Participant):
    """A client that must find the last offset which was acknowledged to the committer, or a later one (I17)."""

    is_reader = True

    def __init__(self, world: ClusterWorld, name: str, committer: Committer) -> None:
        super().__init__(world, name)
        self._committer = committer

    def ceilings(self) -> dict[int, int]:
        return {9: 9}

    async def live(self) -> None:
        committer, where = self._committer, self.world.partitions[0]
        wanted = OffsetFetchRequestTopics(name=where.topic, partition_indexes=[where.partition])
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=committer.name, topics=[wanted])])
        while not self.world.is_quiet:
            await self.world.think()
            least = committer.acknowledged
            answer = await self.until_answered(
                request,
                OffsetFetchResponse,
                lambda answer: (group.error_code for group in answer.groups),
                to=Coordinator(_GROUP, committer.name),
            )
            found = max(answer.groups[0].topics[0].partitions[0].committed_offset, 0)
            # A delayed request may restore an earlier offset.
            if found > committer.asked or (found < least and not self.world.plan.has_stalled_links):
                raise Violation(17, f"{self.name} finds {found}, and {least} was acknowledged")
        self.is_finished = True

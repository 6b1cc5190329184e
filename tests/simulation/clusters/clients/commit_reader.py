"""A client that reads the offsets of a committer. It may still ask a broker that does not coordinate the group any
more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.brokers.clients.base import Participant
from tests.simulation.brokers.clients.client import ClientConnection, Coordinator
from tests.simulation.brokers.clients.committer import Committer
from tests.simulation.violation import Violation

from klamm.client.errors import ConnectionFailed
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse

if TYPE_CHECKING:
    from tests.simulation.clusters.world import ClusterWorld

    from klamm.client.config import Address

__all__ = ["CommitReader"]

_GROUP: Final = 0


class CommitReader(Participant):
    """A client that must find the last offset which was acknowledged to the committer, or a later one (I17)."""

    is_reader = True

    def __init__(self, world: ClusterWorld, name: str, committer: Committer) -> None:
        super().__init__(world, name)
        self._committer = committer

    @property
    def group_id(self) -> str:
        """The group of the committer."""
        return self._committer.name

    @property
    def acknowledged(self) -> int:
        """The last offset that was acknowledged to the committer."""
        return self._committer.acknowledged

    def ceilings(self) -> dict[int, int]:
        return {9: 9}

    async def live(self) -> None:
        while not self.world.is_quiet:
            await self.world.think()
            least = self._committer.acknowledged
            answer = await self.until_answered(
                self._request(),
                OffsetFetchResponse,
                lambda answer: (group.error_code for group in answer.groups),
                to=Coordinator(_GROUP, self.group_id),
            )
            self._check(answer, least)
        self.is_finished = True

    async def ask_broker(self, address: Address) -> None:
        """Asks one broker once, which may have coordinated the group earlier: it may refuse, but not answer from an old
        state."""
        least = self._committer.acknowledged
        try:
            connection = ClientConnection(self.world.network, self.client.config, self.ceilings(), address=address)
            await connection.open()
            answer = await connection.ask(self._request(), OffsetFetchResponse)
        except ConnectionFailed:
            return
        if answer.groups[0].error_code == ErrorCode.NONE:
            self.note("has asked one broker, and at least %d was acknowledged", least)
            self._check(answer, least)

    def _request(self) -> OffsetFetchRequest:
        where = self.world.partitions[0]
        wanted = OffsetFetchRequestTopics(name=where.topic, partition_indexes=[where.partition])
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group_id, topics=[wanted])])

    def _check(self, answer: OffsetFetchResponse, least: int) -> None:
        found = max(answer.groups[0].topics[0].partitions[0].committed_offset, 0)
        # A delayed request may restore an earlier offset.
        if found > self._committer.asked or (found < least and not self.world.plan.has_stalled_links):
            raise Violation(17, f"{self.name} finds {found}, and {least} was acknowledged")

"""An administrator who asks for unclean elections again and again, also in the moment after a leader has failed."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Final

from tests.simulation.brokers.clients.base import PASSING, Participant
from tests.simulation.violation import Violation

from klamm.client.cluster_view import error_code
from klamm.client.errors import ConnectionFailed
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from klamm.protocol.schema.elect_leaders_response import ElectLeadersResponse

if TYPE_CHECKING:
    from tests.simulation.clusters.replicated import ReplicaWorld

__all__ = ["UncleanElector"]

_UNCLEAN: Final = 1
_LONGEST_PAUSE_S: Final = 0.005
_ANSWERS: Final = frozenset({ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE})


class UncleanElector(Participant):
    """The administrator of a world whose topics allow unclean elections anyway."""

    world: ReplicaWorld

    def __init__(self, world: ReplicaWorld, name: str, draw: Random) -> None:
        super().__init__(world, name)
        self._draw = draw

    async def live(self) -> None:
        topics = [
            TopicPartitions(topic=name, partitions=list(range(count))) for name, count in self.world.plan.topics.items()
        ]
        request = ElectLeadersRequest(election_type=_UNCLEAN, topic_partitions=topics, timeout_ms=5_000)
        while not self.world.is_ending:
            await asyncio.sleep(self._draw.random() * _LONGEST_PAUSE_S)
            await self._elect(request)
        self.is_finished = True

    async def _elect(self, request: ElectLeadersRequest) -> None:
        try:
            answer = await self.client.ask(request, ElectLeadersResponse)
        except ConnectionFailed as error:
            await self.rest(error)
            return
        codes = [each.error_code for topic in answer.replica_election_results for each in topic.partition_result]
        for code in map(error_code, (answer.error_code, *codes)):
            if code not in _ANSWERS and code not in PASSING:
                raise Violation(0, f"an unclean election of {self.name} was answered {code.name}")

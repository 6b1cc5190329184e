"""An administrator who asks for unclean elections in the moment in which one could lose records: the sessions of all
in-sync replicas have ended, no broker has decided anything yet, and an eligible leader replica is live."""

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
_LOOK_S: Final = 0.001
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
            await asyncio.sleep(self._draw.random() * _LOOK_S)
            if self._is_moment():
                await self._elect(request)
        self.is_finished = True

    def _is_moment(self) -> bool:
        image = self.world.checks.image
        live = image.live.keys()
        return any(
            live.isdisjoint(partition.isr) and not live.isdisjoint(partition.elr)
            for name in self.world.plan.topics
            if name in image.topics
            for partition in image.topics[name].partitions
        )

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

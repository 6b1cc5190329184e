"""An administrator who changes replicas, leaders and `min.insync.replicas`, and removes brokers, during faults."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.brokers.clients.base import PASSING, Participant
from tests.simulation.violation import Violation

from klamm.client.cluster_view import error_code
from klamm.client.errors import ConnectionFailed
from klamm.metadata.image import ResourceType
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.schema.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from klamm.protocol.schema.elect_leaders_response import ElectLeadersResponse
from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.schema.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from klamm.protocol.schema.unregister_broker_request import UnregisterBrokerRequest
from klamm.protocol.schema.unregister_broker_response import UnregisterBrokerResponse
from klamm.protocol.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.clusters.replicated import ReplicaWorld

__all__ = ["ReplicaAdministrator"]

_PREFERRED: Final = 0
_SET: Final = 0
_LONGEST_PAUSE_S: Final = 0.15
_ELECTED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }
)
_REASSIGNED: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        # A broker that is not live can't be a new replica.
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    }
)
_UNREGISTERED: Final = frozenset({ErrorCode.NONE, ErrorCode.BROKER_ID_NOT_REGISTERED})


class ReplicaAdministrator(Participant):
    """The administrator. A change whose answer is lost is not repeated: it may have happened or not."""

    world: ReplicaWorld

    def __init__(self, world: ReplicaWorld, name: str) -> None:
        super().__init__(world, name)
        self.lowered: list[str] = []
        """Topics whose `min.insync.replicas` are lowered to 1 next."""
        self.assigned: list[tuple[TopicPartition, list[BrokerId]]] = []
        """Replicas that partitions get next, in order."""
        self.elected: list[TopicPartition] = []
        """Partitions whose preferred leaders are elected next."""

    async def live(self) -> None:
        changes = [self._reassign, self._elect, self._cancel] * self.world.cluster.has_reassignments
        changes += [self._change_min_isr] * self.world.cluster.has_min_isr_changes
        changes += [self._unregister] * self.world.cluster.has_unregistrations
        while not self.world.is_ending:
            await asyncio.sleep(self.random.random() * _LONGEST_PAUSE_S)
            while self.lowered:
                await self._set_min_isr(ResourceType.TOPIC, self.lowered.pop(), 1)
            while self.assigned:
                await self._assign(*self.assigned.pop(0))
            while self.elected:
                await self._elect_in(self.elected.pop())
            await self.random.choice(changes)()
        self.is_finished = True

    def _some_partition(self) -> TopicPartition:
        return self.random.choice(self.world.partitions)

    async def _reassign(self) -> None:
        count = self.random.choice((2, 3, 3))
        await self._assign(self._some_partition(), self.random.sample(sorted(self.world.machines), count))

    async def _cancel(self) -> None:
        await self._assign(self._some_partition(), None)

    async def _assign(self, where: TopicPartition, replicas: Sequence[int] | None) -> None:
        self.note("assigns %s to %s", where, replicas)
        partition = ReassignablePartition(
            partition_index=where.partition, replicas=None if replicas is None else list(replicas)
        )
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=5_000, topics=[ReassignableTopic(name=where.topic, partitions=[partition])]
        )
        answer = await self._ask(request, AlterPartitionReassignmentsResponse)
        if answer is not None:
            codes = [answer.error_code, *(each.error_code for topic in answer.responses for each in topic.partitions)]
            self._check("reassignment", codes, _REASSIGNED)

    async def _elect(self) -> None:
        await self._elect_in(self._some_partition())

    async def _elect_in(self, where: TopicPartition) -> None:
        self.note("elects the preferred leader of %s", where)
        request = ElectLeadersRequest(
            election_type=_PREFERRED,
            topic_partitions=[TopicPartitions(topic=where.topic, partitions=[where.partition])],
            timeout_ms=5_000,
        )
        answer = await self._ask(request, ElectLeadersResponse)
        if answer is not None:
            results = [each.error_code for topic in answer.replica_election_results for each in topic.partition_result]
            self._check("election", [answer.error_code, *results], _ELECTED)

    async def _change_min_isr(self) -> None:
        value = self.random.choice((1, 1, 2, 2, 3))
        if self.random.random() < 0.3:
            await self._set_min_isr(ResourceType.BROKER, "", value)
        else:
            await self._set_min_isr(ResourceType.TOPIC, self._some_partition().topic, value)

    async def _set_min_isr(self, kind: ResourceType, name: str, value: int) -> None:
        if not self.world.may_change_min_isr:
            return
        self.note("sets min.insync.replicas=%d for %s", value, name or "the cluster")
        config = AlterableConfig(name="min.insync.replicas", config_operation=_SET, value=str(value))
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])]
        )
        answer = await self._ask(request, IncrementalAlterConfigsResponse)
        if answer is not None:
            self._check("change of a config", [each.error_code for each in answer.responses], {ErrorCode.NONE})

    async def _unregister(self) -> None:
        number = self.random.choice(sorted(self.world.machines))
        if not self.world.may_leave(number):
            return
        self.note("unregisters broker %d", number)
        answer = await self._ask(UnregisterBrokerRequest(broker_id=number), UnregisterBrokerResponse)
        if answer is not None:
            self._check("removal of a broker", [answer.error_code], _UNREGISTERED)

    async def _ask(self, request: Message, answer: type[Any]) -> Any:
        try:
            return await self.client.ask(request, answer)
        except ConnectionFailed as error:
            await self.rest(error)
            return None

    def _check(self, what: str, codes: list[int], expected: frozenset[ErrorCode] | set[ErrorCode]) -> None:
        for code in map(error_code, codes):
            if code not in expected and code not in PASSING:
                raise Violation(0, f"the {what} of {self.name} was answered {code.name}")

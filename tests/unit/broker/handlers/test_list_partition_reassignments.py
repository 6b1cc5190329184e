"""Tests which reassignments in progress ListPartitionReassignments returns."""

from __future__ import annotations

from tests.support.event_loop import in_loop
from tests.support.metadata_brokers import ENDPOINTS, connect
from tests.support.steps import finished
from tests.unit.broker.handlers.conftest import MetadataBroker

from klamm.broker.handlers.list_partition_reassignments import handle
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.replicas.reassignments import Reassignment
from klamm.metadata.service import NewTopic
from klamm.protocol.schema.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from klamm.protocol.types import BrokerId


@in_loop
async def test_partitions_are_listed_as_they_are_named() -> None:
    """Named partitions are listed in the order of the request, and as often as it names them. Partitions that don't
    move, or don't exist, are left out; without names, all that move are listed."""
    metadata = MemoryMetadata()
    one, store = await connect(metadata, 1)
    two, _ = await connect(metadata, 2)
    for service in (one, two):
        await service.start_broker(ENDPOINTS)
    await one.ensure_topic(NewTopic("a", assignments=[(index, [1]) for index in range(3)]))
    await one.replicas.reassign([Reassignment("a", index, [1, 2]) for index in (0, 2)], allows_other_factor=True)
    broker = MetadataBroker(store, one, BrokerConfig(node_id=BrokerId(1)))

    async def listed(*named: tuple[str, list[int]]) -> list[tuple[str, list[int]]]:
        topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes) for name, indexes in named]
        request = ListPartitionReassignmentsRequest(topics=topics if named else None)
        response = await finished(handle(broker.request(0), request))
        return [(topic.name, [each.partition_index for each in topic.partitions]) for topic in response.topics]

    assert await listed(("a", [2, 1, 0, 2, 9, -1]), ("b", [0]), ("a", [1])) == [("a", [2, 0, 2])]
    assert await listed() == [("a", [0, 2])]
    for service in (one, two):
        await service.close()

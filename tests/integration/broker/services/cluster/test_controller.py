"""Tests which changes of the metadata make the controller look for partitions whose leader it can elect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.support.metadata_brokers import ENDPOINTS, connect

from klamm.broker.services.cluster.controller import Controller
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.directory_content import DirectoryContent
from klamm.metadata.image import NO_BROKER, PartitionImage, ResourceType
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.service import MetadataService, NewTopic
from klamm.protocol.types import BrokerId

TURNS = 1000
LOST = DirectoryContent(kept_runs=("none",))


def orders(service: MetadataService) -> PartitionImage:
    return service.image.topics["orders"].partitions[0]


async def until(is_true: Callable[[], bool]) -> None:
    for _ in range(TURNS):
        if is_true():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("the controller has changed nothing")


@pytest.mark.parametrize(
    ("least", "back", "key", "value"),
    [("1", 3, "unclean.leader.election.enable", "true"), ("2", 2, "min.insync.replicas", "1")],
)
def test_override_of_a_topic_that_allows_an_election_causes_it(least: str, back: int, key: str, value: str) -> None:
    """Broker 3 goes, then broker 2, and one of them is back. It may lead as soon as the topic allows unclean elections,
    or as soon as a lower minimum of in-sync replicas makes the other one ineligible."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        one, _ = await connect(metadata, 1)
        await one.start_broker(ENDPOINTS)
        stores = {}
        for broker_id in (2, 3):
            service, stores[broker_id] = await connect(metadata, broker_id)
            await service.start_broker(ENDPOINTS)
        configs = {"min.insync.replicas": least}
        await one.create_topics([NewTopic("orders", assignments=[(0, [2, 3])], configs=configs)])
        controller = Controller(lambda: BrokerConfig(node_id=BrokerId(1)), one)
        controller.start()
        for broker_id in (3, 2):
            stores[broker_id].inner.lose()
            await until(lambda gone=broker_id: gone not in orders(one).isr)  # type: ignore[misc]
        again, _ = await connect(metadata, back)
        await again.start_broker(ENDPOINTS, content=LOST)
        await asyncio.sleep(0.01)
        assert orders(one).leader == NO_BROKER
        await one.alter_configs({(ResourceType.TOPIC, "orders"): {key: value}})
        await until(lambda: orders(one).leader == back)
        controller.stop()
        await again.close()
        await one.close()

    asyncio.run(scenario())


def test_an_unexpected_error_does_not_end_the_controller() -> None:
    """A decision that fails because of an error in klamm is tried again. Otherwise no leader would be elected until
    the broker with the lowest id starts again."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        one, _ = await connect(metadata, 1)
        await one.start_broker(ENDPOINTS)
        two, store = await connect(metadata, 2)
        await two.start_broker(ENDPOINTS)
        await one.create_topics([NewTopic("orders", assignments=[(0, [2, 1])])])
        keep_leaders, failures = one.replicas.keep_leaders, 0

        async def fail_once() -> int:
            nonlocal failures
            failures += 1
            if failures == 1:
                raise RuntimeError("an error in the program")
            return await keep_leaders()

        one.replicas.keep_leaders = fail_once  # type: ignore[assignment, method-assign]
        controller = Controller(lambda: BrokerConfig(node_id=BrokerId(1)), one)
        controller.start()
        store.inner.lose()
        await until(lambda: orders(one).leader == 1)
        assert failures > 1
        controller.stop()
        await one.close()

    asyncio.run(scenario())


def test_other_changes_of_topics_cause_no_look_at_all_partitions() -> None:
    """The controller's look takes longer with more partitions, and topics are created and deleted often."""

    async def scenario() -> None:
        one, _ = await connect(MemoryMetadata(), 1)
        await one.start_broker(ENDPOINTS)
        looks = 0

        async def look() -> int:
            nonlocal looks
            looks += 1
            return 0

        one.replicas.keep_leaders = look  # type: ignore[assignment, method-assign]
        controller = Controller(lambda: BrokerConfig(node_id=BrokerId(1)), one)
        controller.start()
        await asyncio.sleep(0.01)
        assert looks == 1
        await one.create_topics([NewTopic("orders", partitions=1, configs={"retention.ms": "1"})])
        await one.delete_topics([one.image.topics["orders"].topic_id])
        await asyncio.sleep(0.01)
        assert looks == 1
        controller.stop()
        await one.close()

    asyncio.run(scenario())

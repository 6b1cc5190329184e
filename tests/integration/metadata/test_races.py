"""Tests that brokers which change the same metadata at the same time, in parts and with unknown outcomes, agree."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from tests.support.metadata_brokers import ENDPOINTS, connect

from klamm.metadata.image import TopicImage
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.service import MetadataService, NewPartitions, NewTopic


@pytest.mark.parametrize("seed", range(15))
def test_brokers_that_race_and_sweep_contradict_each_other_in_nothing(seed: int) -> None:
    """Brokers that create colliding topics, widen one topic, delete and sweep at the same time, with unknown outcomes,
    always agree on one state without parts of a topic."""

    async def scenario() -> None:
        random = Random(seed)
        metadata = MemoryMetadata(maximum_operations=10)
        pairs = [await connect(metadata, broker_id) for broker_id in (1, 2, 3)]
        services = [service for service, _ in pairs]
        for service, _ in pairs:
            await service.start_broker(ENDPOINTS)
        await services[0].create_topics([NewTopic("t", partitions=1)])
        for _, store in pairs:
            store.random = Random(random.random())

        async def act(service: MetadataService, number: int) -> None:
            for turn in range(4):
                name = random.choice(["a.b", "a_b", "c"])
                created = (await service.create_topics([NewTopic(name, partitions=random.randint(1, 25))]))[name]
                if isinstance(created, TopicImage):
                    assert service.image.topics.get(name) in (created, None)
                await service.create_partitions([NewPartitions(topic="t", count=random.randint(2, 60))])
                if random.random() < 0.5:
                    service._sweeper.start()
                if name in service.image.topics and random.random() < 0.5:
                    await service.delete_topics([service.image.topics[name].topic_id])
                await service.alter_configs({(4, ""): {f"k{number}.{turn}": "1"}})

        await asyncio.gather(*(act(service, number) for number, service in enumerate(services)))
        for _, store in pairs:
            store.random = None
        await services[0]._sweeper._sweep()
        for service in services:
            await service.producer_ids.allocate()
        await asyncio.sleep(0)
        images = [service.image for service in services]
        assert images[0].topics == images[1].topics == images[2].topics
        assert not images[0].parts
        overrides = images[0].config_overrides(4, "")
        assert sum(key.startswith("k") for key in overrides) == 12
        for service in services:
            await service.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("sweep_is_first", [True, False])
def test_a_sweep_and_a_creation_in_parts_exclude_each_other(sweep_is_first: bool) -> None:
    """A sweep that was decided before a topic's commit point either prevents the commit, and the topic is created
    again, or deletes nothing."""

    async def scenario() -> None:
        metadata = MemoryMetadata(maximum_operations=10)
        (one, sweeping), (two, creating) = await connect(metadata, 1), await connect(metadata, 2)
        await one.start_broker(ENDPOINTS)
        await two.start_broker(ENDPOINTS)
        await two.create_topics([NewTopic("same", partitions=20)])
        parts = creating.transactions - 1
        creating.held_at[creating.transactions + parts - 1] = released = asyncio.Event()
        creation = asyncio.create_task(two.create_topics([NewTopic("t", partitions=20)]))
        await creating.held.wait()
        assert one.image.parts
        assert "t" not in one.image.topics
        sweeping.held_at[sweeping.transactions + 1] = swept = asyncio.Event()
        sweep = asyncio.create_task(one._sweeper._sweep())
        await sweeping.held.wait()
        if sweep_is_first:
            swept.set()
            await sweep
            released.set()
            created = (await creation)["t"]
        else:
            released.set()
            created = (await creation)["t"]
            swept.set()
            await sweep
        assert isinstance(created, TopicImage)
        three, _ = await connect(metadata, 3)
        assert three.image.topics["t"] == created
        assert len(created.partitions) == 20
        assert not three.image.parts
        for service in (one, two, three):
            await service.close()

    asyncio.run(scenario())

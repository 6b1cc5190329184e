"""Tests what several brokers on one metadata store may rely on: identity, races, changes in parts, unknown outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.support.metadata_brokers import ENDPOINTS, UnreliableStore, brokers, connect

from klamm.broker.services.coordinators.coordinator_ports import certainty_to_coordinate
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.brokers import BrokerIsLive
from klamm.metadata.config_changes import ConfigDecision
from klamm.metadata.image import NO_EPOCH, MetadataImage, TopicImage
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.metadata_store import Change
from klamm.metadata.metadata_version import METADATA_VERSION, NewerMetadata
from klamm.metadata.service import MetadataService, NewPartitions, NewTopic
from klamm.metadata.sqlite_store import SqliteStore
from klamm.protocol.errors import KafkaError
from klamm.protocol.types import BrokerId

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
VERSION_0 = [
    Change("cluster", b'{"id":"MkU3OEVBNTcwNTJENDM2Qk"}'),
    Change("producer-ids", b'{"next":1000}'),
    Change("brokers/1", b'{"host":"old","port":9,"rack":null}'),
    Change("topics/t", b'{"configs":{"retention.ms":"5"},"id":"AAAAAAAAAAAAAAAAAAAAAQ","name":"t"}'),
    Change(f"partitions/{TOPIC_ID}/0", b'{"epoch":4,"isr":[1],"leader":1,"replicas":[1]}'),
    Change(f"partitions/{TOPIC_ID}/1", b'{"epoch":2,"isr":[1],"leader":1,"replicas":[1]}'),
    Change("configs/4/", b'{"min.insync.replicas":"1"}'),
]
"""The entries of a store that was written before the metadata had a version."""


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs one scenario on its own event loop."""
    asyncio.run(scenario)


async def settled(service: MetadataService) -> None:
    """Waits until the service does not sweep."""
    if service._sweeper.task is not None:
        await service._sweeper.task


def test_a_broker_is_live_while_its_session_lasts() -> None:
    """A broker whose session ends is no longer live, and stays registered with its addresses."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        (one, _), (two, store) = await connect(metadata, 1), await connect(metadata, 2)
        await one.start_broker(ENDPOINTS)
        broker = await two.start_broker({"PLAINTEXT": ("a", 1), "INTERNAL": ("b", 2)}, "rack")
        assert broker.endpoint("INTERNAL") == ("b", 2)
        assert broker.endpoint("OTHER") is None
        assert one.image.brokers.keys() == one.image.registrations.keys() == {1, 2}
        store.inner.lose()
        await one.producer_ids.allocate()
        assert one.image.brokers.keys() == {1}
        assert one.image.registrations[BrokerId(2)] == broker._replace(epoch=NO_EPOCH, incarnation="")
        await one.close()

    run(scenario())


def test_a_broker_that_is_live_is_not_started_twice() -> None:
    """A start is refused while another run of the broker is live, unless the data directory knows that run as its
    own."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        (first, _), (second, _) = await connect(metadata, 1), await connect(metadata, 1)
        recorded: list[tuple[str, str]] = []
        broker = await first.start_broker(ENDPOINTS, record_incarnation=lambda *pair: recorded.append(pair))
        assert recorded == [(first.image.cluster_id, first.incarnation)]
        assert broker.incarnation == first.incarnation
        for _ in range(2):
            with pytest.raises(BrokerIsLive, match=f"broker 1 is already running .*{first.incarnation}"):
                await second.start_broker(ENDPOINTS)
        again = await second.start_broker(ENDPOINTS, known_incarnation=first.incarnation)
        assert again.epoch > broker.epoch
        assert first.image.brokers == {1: again}
        await first.close()
        await second.close()

    run(scenario())


@pytest.mark.parametrize("maximum_operations", [None, 10])
def test_a_store_of_version_0_is_upgraded_by_the_first_start(tmp_path: Path, maximum_operations: int | None) -> None:
    """A store without a version keeps its content, and gets everything that version 1 has with the first start."""

    async def scenario() -> None:
        if maximum_operations is None:
            store = await SqliteStore.open(tmp_path / "s")
            await store.transact({}, VERSION_0)
            service = await MetadataService.open(store, BrokerConfig())
        else:
            metadata = MemoryMetadata(maximum_operations=maximum_operations)
            await metadata.connect().transact({}, VERSION_0)
            service, _ = await connect(metadata, 1)
        before = service.image
        assert before.metadata_version == 0
        assert not before.brokers
        assert [partition.leader_epoch for partition in before.topics["t"].partitions] == [4, 2]
        assert not before.parts
        await service.start_broker(ENDPOINTS)
        after = service.image
        assert after.metadata_version == METADATA_VERSION
        assert after.cluster_id == before.cluster_id
        assert after.brokers[BrokerId(1)].endpoints == ENDPOINTS
        assert [partition.leader_epoch for partition in after.topics["t"].partitions] == [5, 3]
        assert after.topics["t"].configs == {"retention.ms": "5"}
        await service.create_partitions([NewPartitions(topic="t", count=4)])
        assert len(service.image.topics["t"].partitions) == 4
        await service.close()

    run(scenario())


@pytest.mark.parametrize("entry", [("features", b'{"metadata.version":3}'), ("novelties/1", b"{}")])
def test_a_store_of_a_later_version_is_refused(entry: tuple[str, bytes]) -> None:
    """A store of a later version refuses the start, with both versions and what to do."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        await metadata.connect().transact({}, [Change(*entry)])
        with pytest.raises(NewerMetadata, match=r"(version 3|kind 'novelties').* up to 2: start the broker with"):
            await connect(metadata, 1)

    run(scenario())


def test_a_single_node_starts_with_one_transaction(tmp_path: Path) -> None:
    """A start writes one transaction, because the stop before has removed the session."""

    async def scenario() -> None:
        for start in range(3):
            store = await SqliteStore.open(tmp_path / "s")
            service = await MetadataService.open(store, BrokerConfig())
            before = service.image.revision
            await service.start_broker(ENDPOINTS)
            assert service.image.revision == before + 1
            assert before == start * 2  # the stop has removed the session
            await service.close()

    run(scenario())


@pytest.mark.parametrize("count", [1, 6, 7, 8, 9, 60])
def test_a_change_in_parts_is_seen_as_a_whole(count: int) -> None:
    """However many transactions a creation, a growth or a deletion takes, every image has all of it or nothing."""

    async def scenario() -> None:
        async with brokers(1, 2, maximum_operations=10) as (one, two):
            sizes: list[int] = []
            two.subscribe(lambda old, new: sizes.append(len(new.topics["t"].partitions) if "t" in new.topics else 0))
            created = (await one.create_topics([NewTopic("t", partitions=count)]))["t"]
            assert isinstance(created, TopicImage)
            assert one.image.topics["t"] == created
            assert await one.create_partitions([NewPartitions(topic="t", count=2 * count + 20)]) == {"t": None}
            await one.alter_configs({(2, "t"): {"retention.ms": "5"}})
            await one.delete_topics([created.topic_id])
            await one.producer_ids.allocate()
            assert [size for size, _ in groupby(sizes) if size] == [count, 2 * count + 20]
            assert sizes[-1] == 0
            assert not one.image.parts
            assert one.image == two.image

    run(scenario())


def test_what_an_interrupted_change_leaves_is_never_seen_and_is_swept() -> None:
    """A change that is interrupted after any of its transactions has no effect. The controller removes its parts when
    the broker is gone."""

    async def scenario() -> None:
        for fails_at in range(1, 12):
            metadata = MemoryMetadata(maximum_operations=10)
            (one, _), (two, store) = await connect(metadata, 1), await connect(metadata, 2)
            await one.start_broker(ENDPOINTS)
            await two.start_broker(ENDPOINTS)
            await one.create_topics([NewTopic("old", partitions=2)])
            store.fails_at = store.transactions + fails_at
            for change in (
                two.create_topics([NewTopic("new", partitions=30)]),
                two.create_partitions([NewPartitions(topic="old", count=40)]),
            ):
                with suppress(KafkaError):
                    await change
            present = {name: len(topic.partitions) for name, topic in one.image.topics.items()}
            assert present in ({"old": 2}, {"old": 2, "new": 30}, {"old": 40, "new": 30})
            await store.close()
            await settled(one)
            assert not one.image.parts
            assert present == {name: len(topic.partitions) for name, topic in one.image.topics.items()}
            await one.create_partitions([NewPartitions(topic="old", count=41)])
            assert len(one.image.topics["old"].partitions) == 41
            await one.close()

    run(scenario())


def test_a_controller_that_starts_sweeps() -> None:
    """The controller removes the parts of interrupted changes at its start."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        await metadata.connect().transact({}, [VERSION_0[4], Change("features", b'{"metadata.version":1}')])
        service, _ = await connect(metadata, 1)
        assert service.image.parts
        assert not service.image.topics
        await service.start_broker(ENDPOINTS)
        await settled(service)
        assert not service.image.parts
        await service.close()

    run(scenario())


def test_no_block_of_producer_ids_is_allocated_twice() -> None:
    """Two brokers never get the same producer ids, even if they do not learn whether their transactions happened."""

    async def scenario() -> None:
        for seed in range(20):
            metadata = MemoryMetadata()
            pairs = [await connect(metadata, broker_id) for broker_id in (1, 2)]
            for number, (_, store) in enumerate(pairs):
                store.random = Random(seed * 2 + number)
            blocks = await asyncio.gather(
                *(service.producer_ids.allocate(10) for service, _ in pairs for _ in range(10))
            )
            given = [producer_id for block in blocks for producer_id in block]
            assert sorted(given) == list(range(200))

    run(scenario())


def test_two_appends_to_one_list_both_take_effect() -> None:
    """A config change that is decided from the present value is decided again if another broker was faster."""

    async def scenario() -> None:
        async with brokers(1, 2) as services:

            def appending(text: str) -> Callable[[MetadataImage], ConfigDecision[str]]:
                def decide(image: MetadataImage) -> ConfigDecision[str]:
                    yield
                    present = image.config_overrides(4, "").get("list", "")
                    return text, {(4, ""): {"list": present + text}}

                return decide

            texts = [f"{number}," for number in range(20)]
            outcomes = await asyncio.gather(
                *(services[number % 2].decide_configs(appending(text)) for number, text in enumerate(texts))
            )
            assert [result for result, _ in outcomes] == texts
            written = services[0].image.config_overrides(4, "")["list"]
            assert sorted(written.split(",")) == sorted([*(str(number) for number in range(20)), ""])

    run(scenario())


def test_broker_ids_are_allocated_once() -> None:
    """Brokers without an id get different ids, which no registered broker has, even after its registration is
    removed."""

    async def scenario() -> None:
        async with brokers(2) as (two,):
            ids = await asyncio.gather(*(two.allocate_broker_id() for _ in range(3)))
            assert ids == [1, 3, 4]

    run(scenario())


def test_the_id_of_a_removed_broker_is_not_allocated() -> None:
    """A broker without an id never gets that of an unregistered broker, whose cordon and other settings stay."""

    async def scenario() -> None:
        async with brokers(1, 2, 3) as (one, two, three):
            for broker_id, stopped in ((3, three), (2, two)):
                await stopped.close()
                await one.unregister_broker(BrokerId(broker_id))
            assert await one.allocate_broker_id() == 4

    run(scenario())


def test_the_highest_id_can_be_removed() -> None:
    """The id after the highest one does not exist, so the allocation of ids goes on as before."""

    async def scenario() -> None:
        async with brokers(1, 2**31 - 1) as (one, last):
            await last.close()
            await one.unregister_broker(BrokerId(2**31 - 1))
            assert await one.allocate_broker_id() == 2

    run(scenario())


def test_brokers_are_unregistered() -> None:
    """The registration of a live or of a stopped broker is removed; an unknown broker is refused. A live one keeps its
    session and is about to stop, so that others lead; nobody finds its address any more."""

    async def scenario() -> None:
        async with brokers(1, 2) as (one, two):
            with pytest.raises(KafkaError, match="Broker ID 7 is not currently registered"):
                await one.unregister_broker(BrokerId(7))
            before = one.image.brokers[BrokerId(2)]
            await one.unregister_broker(BrokerId(2))
            assert one.image.registrations.keys() == {1}
            after = one.image.brokers[BrokerId(2)]
            assert (after.epoch, after.incarnation) == (before.epoch, before.incarnation)
            assert (before.is_stopping, after.is_stopping) == (False, True)
            assert before.endpoints
            assert not after.endpoints
            with pytest.raises(KafkaError, match="Broker ID 2 is not currently registered"):
                await one.unregister_broker(BrokerId(2))
            await two.close()
            assert one.image.brokers.keys() == {1}
        async with brokers(1, 2) as (one, two):
            await two.close()
            await one.unregister_broker(BrokerId(2))
            assert one.image.registrations.keys() == {1}

    run(scenario())


def test_a_broker_that_stops_is_not_certain_to_coordinate() -> None:
    """From its announcement on, another broker may coordinate its groups before it hears of that. Its session lasts."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        (one, _), (two, _) = await connect(metadata, 1), await connect(metadata, 2)
        for service in (one, two):
            await service.start_broker(ENDPOINTS)
        is_certain = certainty_to_coordinate(one)
        assert is_certain is not None
        assert is_certain()
        stop = asyncio.create_task(one.replicas.begin_stop())
        await asyncio.sleep(0)
        assert not is_certain()
        await stop
        assert one.has_session()
        assert not is_certain()
        for service in (one, two):
            await service.close()

    run(scenario())


def test_a_broker_that_goes_while_a_topic_is_created_is_not_in_sync() -> None:
    """The controller looks at partitions when a broker goes, so a later partition must not count on the broker.
    Otherwise writes with acks=all would wait until the leader notices the lag of a broker that is gone. The same holds
    for partitions that a topic gets later."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        (one, store), (two, _), (three, session) = [await connect(metadata, broker_id) for broker_id in (1, 2, 3)]
        for service in (one, two, three):
            await service.start_broker(ENDPOINTS)
        await one.create_topics([NewTopic("grows", assignments=[(0, [1, 2])])])

        async def change_while_three_goes(change: Coroutine[Any, Any, Any], session: UnreliableStore) -> None:
            may_go_on = store.held_at[store.transactions + 1] = asyncio.Event()
            store.held.clear()
            changing = asyncio.ensure_future(change)
            await store.held.wait()
            session.inner.lose()
            may_go_on.set()
            await changing

        await change_while_three_goes(one.create_topics([NewTopic("orders", assignments=[(0, [1, 2, 3])])]), session)
        assert one.image.topics["orders"].partitions[0].isr == (1, 2)
        three, session = await connect(metadata, 3)
        await three.start_broker(ENDPOINTS)
        wider = NewPartitions(topic="grows", count=2, assignments=[[1, 3]])
        await change_while_three_goes(one.create_partitions([wider]), session)
        assert one.image.topics["grows"].partitions[1].isr == (1,)
        for service in (one, two):
            await service.close()

    run(scenario())

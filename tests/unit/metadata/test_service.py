"""Tests the guarantees for a broker: ids and epochs over restarts, ordered images, atomic changes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from klamm.config.broker_config import BrokerConfig
from klamm.config.topic_config import TopicConfig
from klamm.errors import KlammError
from klamm.metadata import planning
from klamm.metadata.image import MetadataImage, TopicImage
from klamm.metadata.service import MetadataService, NewPartitions, NewTopic
from klamm.metadata.sqlite_store import SqliteStore
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicPartition

OpenService = Callable[..., AbstractAsyncContextManager[MetadataService]]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs one scenario on its own event loop."""
    asyncio.run(scenario)


def epochs(image: MetadataImage, topic: str) -> list[LeaderEpoch]:
    """Returns the leader epochs of a topic's partitions."""
    return [partition.leader_epoch for partition in image.topics[topic].partitions]


def test_ids_outlive_the_process(open_service: OpenService) -> None:
    """After a restart, the cluster id, topic ids and configs are those of the first start."""

    async def scenario() -> None:
        async with open_service() as service:
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
            await service.create_topics([NewTopic("t", partitions=2, configs={"retention.ms": "5"})])
        first = service.image
        async with open_service() as service:
            assert (service.image.topics, service.image.configs) == (first.topics, first.configs)
            assert service.image.registrations.keys() == first.registrations.keys()
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
            assert service.image.cluster_id == first.cluster_id
            assert service.image.topics["t"].topic_id == first.topics["t"].topic_id
        assert len(first.cluster_id) == 22
        assert len(base64.urlsafe_b64decode(first.cluster_id + "==")) == 16

    run(scenario())


def test_every_start_raises_the_leader_epochs(open_service: OpenService) -> None:
    """Each start raises the leader epoch of every partition by one, so that a client ahead of a shortened log notices
    the loss (KIP-320)."""

    async def scenario() -> None:
        async with open_service() as service:
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
            await service.create_topics([NewTopic("t", partitions=3)])
            assert epochs(service.image, "t") == [0, 0, 0]
        for start in range(1, 4):
            async with open_service() as service:
                await service.start_broker({"PLAINTEXT": ("h", 9092)})
                assert epochs(service.image, "t") == [start] * 3

    run(scenario())


def test_a_leader_epoch_is_never_below_what_the_log_has_seen(open_service: OpenService) -> None:
    """A log that is ahead of the store sets the lowest leader epoch; a log that is behind the store has no effect."""

    async def scenario() -> None:
        async with open_service() as service:
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
            await service.create_topics([NewTopic("t", partitions=3)])
        async with open_service() as service:
            minimum = {TopicPartition("t", PartitionIndex(0)): 7, TopicPartition("t", PartitionIndex(1)): 1}
            await service.start_broker({"PLAINTEXT": ("h", 9092)}, minimum_leader_epochs=minimum)
            assert epochs(service.image, "t") == [7, 1, 1]

    run(scenario())


def test_a_start_leaves_partitions_that_others_lead_alone(tmp_path: Path) -> None:
    """With two brokers on one store, each start raises only the epochs of the partitions that the broker leads."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        one = await MetadataService.open(store, BrokerConfig(node_id=BrokerId(1)))
        two = await MetadataService.open(store, BrokerConfig(node_id=BrokerId(2)))
        await one.start_broker({"PLAINTEXT": ("a", 1)})
        await two.start_broker({"PLAINTEXT": ("b", 2)})
        await one.create_topics([NewTopic("t", assignments=[(0, [1]), (1, [2])])])
        await two.start_broker({"PLAINTEXT": ("b", 2)})
        assert epochs(one.image, "t") == [0, 1]
        assert one.image is not two.image
        assert one.image == two.image
        assert one.image.controller_id == 1
        await store.close()

    run(scenario())


def test_a_service_that_opens_while_another_writes_misses_nothing(tmp_path: Path) -> None:
    """The image of a service that opens during writes includes the changes of that time."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        one = await MetadataService.open(store, BrokerConfig())
        await one.start_broker({"PLAINTEXT": ("a", 1)})
        outcomes = await asyncio.gather(
            *(one.create_topics([NewTopic(f"t{number}")]) for number in range(5)),
            MetadataService.open(store, BrokerConfig(node_id=BrokerId(2))),
            *(one.create_topics([NewTopic(f"u{number}")]) for number in range(5)),
        )
        two = outcomes[5]
        assert isinstance(two, MetadataService)
        assert two.image == one.image
        assert len(two.image.topics) == 10
        await two.start_broker({"PLAINTEXT": ("b", 2)})
        assert one.image.brokers.keys() == {1, 2}
        await store.close()

    run(scenario())


def test_every_start_has_a_higher_broker_epoch(open_service: OpenService) -> None:
    """Each start registers the broker again with a higher epoch, even with the same address, to distinguish the two
    runs."""

    async def scenario() -> None:
        seen = []
        for _ in range(3):
            async with open_service() as service:
                broker = await service.start_broker({"PLAINTEXT": ("h", 9092)}, "rack")
                assert service.image.brokers == {1: broker}
                assert (broker.host, broker.port, broker.rack) == ("h", 9092, "rack")
                seen.append(broker.epoch)
        assert seen == sorted(set(seen))

    run(scenario())


def test_the_cluster_id_of_the_data_directory_is_taken_over_and_held_to(open_service: OpenService) -> None:
    """The store takes over the cluster id of the data directory, and a later start with another cluster id fails."""
    given = "MkU3OEVBNTcwNTJENDM2Qk"

    async def scenario() -> None:
        async with open_service() as service:
            await service.start_broker({"PLAINTEXT": ("h", 9092)}, cluster_id=given)
            assert service.image.cluster_id == given
        async with open_service() as service:
            await service.start_broker({"PLAINTEXT": ("h", 9092)}, cluster_id=given)
            with pytest.raises(KlammError, match=given):
                await service.start_broker({"PLAINTEXT": ("h", 9092)}, cluster_id="another")

    run(scenario())


def test_thousands_of_partitions_are_decided_on_while_the_loop_goes_on(open_service: OpenService) -> None:
    """Thousands of partitions are created, added and deleted correctly, and concurrent requests are decided one after
    the other."""

    async def scenario() -> None:
        async with open_service() as service:
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
            made, small = await asyncio.gather(
                service.create_topics([NewTopic(f"t-{index}", partitions=20) for index in range(100)]),
                service.create_topics([NewTopic("t-5", partitions=1), NewTopic("s", partitions=1)]),
            )
            assert all(isinstance(topic, TopicImage) for topic in made.values())
            error = small["t-5"]
            assert isinstance(error, KafkaError)
            assert error.code is ErrorCode.TOPIC_ALREADY_EXISTS
            assert len(service.image.topics["t-5"].partitions) == 20
            checked = await service.create_topics([NewTopic("v", partitions=2_000)], validate_only=True)
            assert isinstance(checked["v"], TopicImage)
            assert "v" not in service.image.topics
            await service.create_partitions([NewPartitions(topic="s", count=2_000)])
            assert len(service.image.topics["s"].partitions) == 2_000
            await service.delete_topics([topic.topic_id for topic in service.image.topics.values()])
            assert service.image.topics == {}

    run(scenario())


def test_subscribers_see_each_image_in_order_before_the_answer(open_service: OpenService) -> None:
    """Subscribers get each change once with the old and new image, in order and before the answer; a failing
    subscriber stops no other."""

    async def scenario() -> None:
        async with open_service() as service:
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
            seen: list[tuple[str, MetadataImage, MetadataImage]] = []

            def fail(old: MetadataImage, new: MetadataImage) -> None:
                raise RuntimeError("a full disk")

            service.subscribe(lambda old, new: seen.append(("first", old, new)))
            service.subscribe(fail)
            service.subscribe(lambda old, new: seen.append(("second", old, new)))
            start = service.image

            async def create(name: str) -> None:
                await service.create_topics([NewTopic(name)])
                assert name in seen[-1][2].topics

            await asyncio.gather(*(create(f"t{number}") for number in range(5)))
            assert [who for who, _, _ in seen] == ["first", "second"] * 5
            chain = [(old, new) for who, old, new in seen if who == "first"]
            assert chain[0][0] is start
            assert all(earlier[1] is later[0] for earlier, later in pairwise(chain))
            assert chain[-1][1] is service.image

    run(scenario())


def test_a_request_without_effect_writes_nothing(open_service: OpenService) -> None:
    """A request that is refused, only validated or without effect changes no revision and calls no subscriber."""

    async def scenario() -> None:
        async with open_service() as service:
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
            await service.create_topics([NewTopic("t", configs={"retention.ms": "5"})])
            before = service.image
            await service.create_topics([NewTopic("t")])
            await service.create_topics([NewTopic("new")], validate_only=True)
            await service.create_partitions([NewPartitions(topic="t", count=5)], validate_only=True)
            await service.alter_configs({(2, "t"): {"retention.ms": "5", "segment.ms": None}})
            await service.delete_topics([TopicId(bytes(16))])
            await service.ensure_topic(NewTopic("t"))
            assert service.image is before

    run(scenario())


def test_a_topic_is_created_when_its_name_is_free(open_service: OpenService) -> None:
    """Before a creation, the broker removes its notes of a deleted topic of the same name. If that fails, no topic is
    created; other changes wait meanwhile."""

    async def scenario() -> None:
        async with open_service() as service:
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
            seen: list[object] = []

            async def prepare(topics: Collection[str]) -> None:
                deletion = asyncio.create_task(service.delete_topics([service.image.topics["old"].topic_id]))
                for _ in range(1000):
                    await asyncio.sleep(0)
                seen.append((list(topics), sorted(service.image.topics)))
                tasks.append(deletion)
                if "refused" in topics:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

            tasks: list[asyncio.Task[Any]] = []
            await service.create_topics([NewTopic("old", partitions=1)])
            service.before_creation(prepare)
            with pytest.raises(KafkaError):
                await service.create_topics([NewTopic("refused", partitions=1)])
            await tasks.pop()
            assert seen == [(["refused"], ["old"])]
            assert not service.image.topics
            service.before_creation(no_preparation)
            await service.create_topics([NewTopic("old", partitions=1)])
            assert list(service.image.topics) == ["old"]

    async def no_preparation(topics: Collection[str]) -> None:
        pass

    run(scenario())


def test_the_same_topic_is_created_once(open_service: OpenService) -> None:
    """If several clients create the same topic, one succeeds and the others get TOPIC_ALREADY_EXISTS."""

    async def scenario() -> None:
        async with open_service() as service:
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
            outcomes = await asyncio.gather(*(service.create_topics([NewTopic("t")]) for _ in range(5)))
            results = [outcome["t"] for outcome in outcomes]
            assert sum(isinstance(result, TopicImage) for result in results) == 1
            refused = [result.code for result in results if isinstance(result, KafkaError)]
            assert refused == [ErrorCode.TOPIC_ALREADY_EXISTS] * 4

    run(scenario())


def test_two_brokers_never_create_colliding_topics(tmp_path: Path) -> None:
    """Two brokers never create colliding topics: the slower transaction fails and is decided again with the new
    image."""

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        one = await MetadataService.open(store, BrokerConfig(node_id=BrokerId(1)))
        two = await MetadataService.open(store, BrokerConfig(node_id=BrokerId(2)))
        await one.start_broker({"PLAINTEXT": ("a", 1)})
        for round_number in range(20):
            names = [f"a.b{round_number}", f"a_b{round_number}"]
            outcomes = await asyncio.gather(
                one.create_topics([NewTopic(names[0])]), two.create_topics([NewTopic(names[1])])
            )
            results = [outcomes[0][names[0]], outcomes[1][names[1]]]
            refused = [result for result in results if isinstance(result, KafkaError)]
            assert [error.code for error in refused] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
        assert len(one.image.topics) == 20
        assert one.image == two.image
        await store.close()

    run(scenario())


def test_a_change_between_two_steps_of_a_decision_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision in steps is repeated if another broker's change comes in between, and then detects the collision."""
    monkeypatch.setattr(planning, "_STEP_S", 0.0)

    async def scenario() -> None:
        store = await SqliteStore.open(tmp_path / "s")
        one = await MetadataService.open(store, BrokerConfig(node_id=BrokerId(1)))
        two = await MetadataService.open(store, BrokerConfig(node_id=BrokerId(2)))
        await one.start_broker({"PLAINTEXT": ("a", 1)})
        many = [NewTopic(f"other-{number}") for number in range(500)]
        deciding = asyncio.create_task(two.create_topics([NewTopic("a_b"), *many]))
        await asyncio.sleep(0)
        assert isinstance((await one.create_topics([NewTopic("a.b")]))["a.b"], TopicImage)
        assert not deciding.done()
        refused = (await deciding)["a_b"]
        assert isinstance(refused, KafkaError)
        assert refused.code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert len(one.image.topics) == 501
        await store.close()

    run(scenario())


def test_an_ensured_topic_is_there_whoever_made_it(open_service: OpenService) -> None:
    """Concurrent callers of `ensure_topic` all get the same topic; a topic that can't be created is an error."""

    async def scenario() -> None:
        async with open_service() as service:
            with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR"):
                await service.ensure_topic(NewTopic("__consumer_offsets"))
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
            wanted_change = NewTopic("__consumer_offsets", partitions=2, configs={"cleanup.policy": "compact"})
            topics = await asyncio.gather(*(service.ensure_topic(wanted_change) for _ in range(4)))
            assert all(topic is topics[0] for topic in topics)
            assert topics[0].is_internal
            assert topics[0].configs == {"cleanup.policy": "compact"}

    run(scenario())


def test_a_topic_that_is_made_again_is_another_topic(open_service: OpenService) -> None:
    """A recreated topic has a new id, and nothing of the old topic is left."""

    async def scenario() -> None:
        async with open_service() as service:
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
            await service.create_topics([NewTopic("t", partitions=3, configs={"retention.ms": "5"})])
            old = service.image.topics["t"]
            assert await service.delete_topics([old.topic_id]) == {old.topic_id: None}
            await service.create_topics([NewTopic("t", partitions=1)])
            new = service.image.topics["t"]
            assert new.topic_id != old.topic_id
            assert len(new.partitions) == 1
            assert not new.configs
            assert service.image.topics_by_id == {new.topic_id: new}

    run(scenario())


def test_the_first_start_sets_min_insync_replicas_for_all_brokers(open_service: OpenService) -> None:
    """The first start sets min.insync.replicas for all brokers from the configuration, and later starts keep the
    value (KIP-966)."""

    async def scenario() -> None:
        for configured in (2, 3):
            config = BrokerConfig(topic_defaults=TopicConfig(min_insync_replicas=configured))
            async with open_service(config) as service:
                await service.start_broker({"PLAINTEXT": ("h", 9092)})
                assert service.image.config_overrides(4, "") == {"min.insync.replicas": "2"}

    run(scenario())


def test_config_overrides_are_set_and_unset_together(open_service: OpenService) -> None:
    """Config overrides are changed atomically, None unsets a key, and an unknown resource makes the whole change
    fail."""

    async def scenario() -> None:
        async with open_service() as service:
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
            await service.create_topics([NewTopic("t", configs={"retention.ms": "5"})])
            changes: dict[tuple[int, str], dict[str, str | None]] = {
                (2, "t"): {"retention.ms": None, "segment.ms": "7"},
                (4, ""): {"log.retention.ms": "1"},
                (32, "group/with slashes"): {"consumer.session.timeout.ms": "50000"},
            }
            await service.alter_configs(changes)
            with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await service.alter_configs({(4, ""): {"log.retention.ms": "2"}, (2, "?"): {"segment.ms": "7"}})
        async with open_service() as service:
            image = service.image
            assert image.config_overrides(2, "t") == {"segment.ms": "7"}
            assert image.config_overrides(4, "") == {"log.retention.ms": "1", "min.insync.replicas": "1"}
            assert image.config_overrides(32, "group/with slashes") == {"consumer.session.timeout.ms": "50000"}
            assert image.config_overrides(4, "1") == {}
            assert image.config_overrides(2, "?") == {}
            await service.alter_configs({(32, "group/with slashes"): {"consumer.session.timeout.ms": None}})
            assert (32, "group/with slashes") not in service.image.configs

    run(scenario())


def test_no_producer_id_is_given_twice(open_service: OpenService) -> None:
    """No producer id is given twice, neither to concurrent callers nor after restarts; callers share the fetched
    blocks."""

    async def scenario() -> None:
        given: list[int] = []
        for _ in range(3):
            async with open_service() as service:
                before = service.image.revision
                given += await asyncio.gather(*(service.next_producer_id() for _ in range(1100)))
                assert service.image.revision == before + 2
                given += await service.producer_ids.allocate(10)
        assert len(set(given)) == len(given) == 3330
        assert min(given) == 0

    run(scenario())

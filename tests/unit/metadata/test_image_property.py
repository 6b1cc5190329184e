"""Tests that the image in memory always equals the content of the store."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from klamm.config.broker_config import BrokerConfig
from klamm.metadata.image import NO_EPOCH, MetadataImage
from klamm.metadata.service import MetadataService, NewPartitions, NewTopic
from klamm.metadata.sqlite_store import SqliteStore
from klamm.metadata.topic_name import collision_key
from klamm.protocol.errors import KafkaError

NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "__consumer_offsets", "not legal"])
CONFIGS = st.dictionaries(st.sampled_from(["retention.ms", "segment.ms"]), st.sampled_from(["1", "2"]))
RESOURCES = st.tuples(st.sampled_from([2, 4, 32]), st.sampled_from(["a", "", "1", "x/y"]))
COMMANDS = st.one_of(
    st.tuples(st.just("create"), NAMES, st.integers(-2, 4), CONFIGS),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("widen"), NAMES, st.integers(0, 6)),
    st.tuples(
        st.just("configure"), RESOURCES, st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["1", None]))
    ),
    st.tuples(st.just("producer ids")),
    st.tuples(st.just("restart")),
)


async def _obey(service: MetadataService, command: tuple[object, ...]) -> None:
    match command:
        case ("create", str(name), int(partitions), dict(configs)):
            await service.create_topics([NewTopic(name, partitions=partitions, configs=configs)])
        case ("delete", str(name)):
            topic = service.image.topics.get(name)
            await service.delete_topics([topic.topic_id] if topic else [])
        case ("widen", str(name), int(count)):
            await service.create_partitions([NewPartitions(topic=name, count=count)])
        case ("configure", (int(resource_type), str(name)), dict(changes)):
            try:
                await service.alter_configs({(resource_type, name): changes})
            except KafkaError:
                assert resource_type == 2
                assert name not in service.image.topics
        case ("producer ids",):
            await service.producer_ids.allocate(3)


def without_session(image: MetadataImage) -> MetadataImage:
    """Returns the image after the end of the only broker's session."""
    stopped = {key: broker._replace(epoch=NO_EPOCH, incarnation="") for key, broker in image.registrations.items()}
    return replace(image, revision=image.revision + 1, brokers={}, live={}, registrations=stopped)


def _check_views(image: MetadataImage) -> None:
    assert all(topic.name == name for name, topic in image.topics.items())
    assert image.topics_by_id == {topic.topic_id: topic for topic in image.topics.values()}
    assert image.names_by_collision_key == {collision_key(name): name for name in image.topics}
    for topic in image.topics.values():
        assert [partition.index for partition in topic.partitions] == list(range(len(topic.partitions)))
        assert topic.partitions


async def _scenario(path: Path, commands: list[tuple[object, ...]]) -> None:
    service = await MetadataService.open(await SqliteStore.open(path), BrokerConfig())
    await service.start_broker({"PLAINTEXT": ("h", 9092)})
    for command in commands:
        before = service.image
        kept = {name: (topic, topic.partitions) for name, topic in before.topics.items()}
        if command == ("restart",):
            await service.close()
            service = await MetadataService.open(await SqliteStore.open(path), BrokerConfig())
            assert service.image == without_session(before)
            await service.start_broker({"PLAINTEXT": ("h", 9092)})
        else:
            await _obey(service, command)
        _check_views(service.image)
        assert {name: (topic, topic.partitions) for name, topic in before.topics.items()} == kept
    last = without_session(service.image)
    await service.close()
    service = await MetadataService.open(await SqliteStore.open(path), BrokerConfig())
    assert service.image == last
    await service.close()


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(COMMANDS, max_size=12))
def test_the_image_is_what_the_store_says(commands: list[tuple[object, ...]]) -> None:
    """After any commands, the image equals an image rebuilt from the file, its views agree, and earlier images are
    unchanged."""
    with TemporaryDirectory() as folder:
        asyncio.run(_scenario(Path(folder) / "s", commands))

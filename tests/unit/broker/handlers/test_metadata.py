"""Tests Metadata: what clients learn about brokers, topics and leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from tests.support.steps import finish, finished

from klamm.broker.handlers import metadata
from klamm.broker.time_slices import begin
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.metadata_store import Change, MetadataStoreError
from klamm.metadata.service import NewTopic
from klamm.metadata.sqlite_store import SqliteStore
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic
from klamm.protocol.schema.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Serve = Callable[[BrokerConfig], AbstractAsyncContextManager[Any]]
NO_CREATION = BrokerConfig(auto_create_topics_enable=False)
NOT_ASKED = -(2**31)


async def ask(broker: Any, version: int, **fields: Any) -> MetadataResponse:
    """Returns the answer."""
    return await finished(metadata.handle(broker.request(version), MetadataRequest(**fields)))


def by_name(*names: str | None) -> list[MetadataRequestTopic]:
    """Returns the request's topics by name."""
    return [MetadataRequestTopic(name=name) for name in names]


def test_the_brokers_address_is_the_one_that_the_client_reached(serve_metadata: Serve) -> None:
    """The broker's address is the one that the client reached, not the registered one: a wildcard listener has
    several addresses."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            response = await ask(broker, 13, topics=None)
            assert response.brokers == [MetadataResponseBroker(node_id=1, host="reached", port=1234, rack="r")]
            assert response.cluster_id == broker.metadata.image.cluster_id
            assert response.controller_id == 1
            assert response.topics == []

    asyncio.run(scenario())


@pytest.mark.parametrize(("version", "topics"), [(0, []), (1, None), (12, None), (13, None)])
def test_all_topics_are_an_empty_list_in_version_0_and_null_later(
    serve_metadata: Serve, version: int, topics: list[MetadataRequestTopic] | None
) -> None:
    """A request for all topics (an empty list in version 0, null later) is answered immediately."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await broker.metadata.create_topics([NewTopic("a", partitions=2), NewTopic("__consumer_offsets")])
            response = finish(metadata.handle(broker.request(version), MetadataRequest(topics=topics)))
            assert {topic.name: topic.is_internal for topic in response.topics} == {
                "a": False,
                "__consumer_offsets": True,
            }

    asyncio.run(scenario())


@pytest.mark.parametrize("version", [1, 13])
def test_an_empty_list_asks_for_no_topic_from_version_1_on(serve_metadata: Serve, version: int) -> None:
    """Since version 1, an empty list asks for no topic; clients use it to learn the brokers."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await broker.metadata.create_topics([NewTopic("a")])
            assert (await ask(broker, version, topics=[])).topics == []

    asyncio.run(scenario())


def test_a_topic_is_described_with_leader_epoch_and_replicas(serve_metadata: Serve) -> None:
    """A topic is described with its leader epoch and replicas, once even if it is requested twice."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await broker.metadata.create_topics([NewTopic("a")])
            await broker.metadata.start_broker({"PLAINTEXT": ("registered", 9092)})
            response = await ask(broker, 12, topics=by_name("a", "a"))
            partition = MetadataResponsePartition(
                partition_index=0, leader_id=1, leader_epoch=1, replica_nodes=[1], isr_nodes=[1]
            )
            topic_id = broker.metadata.image.topics["a"].topic_id
            assert response.topics == [MetadataResponseTopic(name="a", topic_id=topic_id, partitions=[partition])]
            assert response.topics[0].topic_authorized_operations == NOT_ASKED

    asyncio.run(scenario())


def test_unknown_and_illegal_names_are_told_apart(serve_metadata: Serve) -> None:
    """A legal but unknown name gets UNKNOWN_TOPIC_OR_PARTITION, and an illegal name gets INVALID_TOPIC_EXCEPTION."""

    async def scenario() -> None:
        async with serve_metadata(NO_CREATION) as broker:
            response = await ask(broker, 12, topics=by_name("unknown", "not legal", "__consumer_offsets"))
            assert [(topic.name, topic.error_code, topic.is_internal) for topic in response.topics] == [
                ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
                ("not legal", ErrorCode.INVALID_TOPIC_EXCEPTION, False),
                ("__consumer_offsets", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
            ]
            assert broker.metadata.image.topics == {}

    asyncio.run(scenario())


def test_a_missing_topic_is_created_and_described_in_one_answer(serve_metadata: Serve) -> None:
    """A missing topic is created with the broker's number of partitions and described in the same answer; an illegal
    one is not."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig(num_partitions=3)) as broker:
            response = await ask(broker, 12, topics=by_name("new", "not legal"))
            assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics] == [
                ("new", 0, 3),
                ("not legal", ErrorCode.INVALID_TOPIC_EXCEPTION, 0),
            ]
            assert broker.metadata.image.topics.keys() == {"new"}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("config", "fields"), [(NO_CREATION, {}), (BrokerConfig(), {"allow_auto_topic_creation": False})]
)
def test_broker_and_client_can_forbid_creation(
    serve_metadata: Serve, config: BrokerConfig, fields: dict[str, bool]
) -> None:
    """`auto.create.topics.enable=false` or the request's flag prevents the creation of topics."""

    async def scenario() -> None:
        async with serve_metadata(config) as broker:
            response = await ask(broker, 4, topics=by_name("new"), **fields)
            assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert broker.metadata.image.topics == {}

    asyncio.run(scenario())


def test_a_topic_that_cannot_be_created_stays_unknown(serve_metadata: Serve) -> None:
    """A topic that can't be created gets UNKNOWN_TOPIC_OR_PARTITION without the reason, as in Kafka."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig(default_replication_factor=3)) as broker:
            response = await ask(broker, 12, topics=by_name("new"))
            assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    asyncio.run(scenario())


def test_internal_topics_are_created_as_their_owner_needs_them(serve_metadata: Serve) -> None:
    """The offsets topic is created with its own settings; an internal topic without an owner in this broker is not
    created."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            response = await ask(broker, 12, topics=by_name("__consumer_offsets", "__transaction_state"))
            assert [(topic.error_code, len(topic.partitions)) for topic in response.topics] == [
                (0, 50),
                (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0),
            ]
            assert broker.metadata.image.config_overrides(2, "__consumer_offsets") == {"cleanup.policy": "compact"}

    asyncio.run(scenario())


def test_topics_are_found_by_id(serve_metadata: Serve) -> None:
    """Topics are found by id, and an unknown id has no name. Names next to ids are ignored, and no topic is created."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await broker.metadata.create_topics([NewTopic("a")])
            topic_id = broker.metadata.image.topics["a"].topic_id
            asked = [MetadataRequestTopic(topic_id=known, name=None) for known in (topic_id, b"?" * 16)]
            response = await ask(broker, 12, topics=[*asked, *by_name("new")])
            assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics] == [
                ("a", topic_id, 0),
                (None, b"?" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
            ]
            assert broker.metadata.image.topics.keys() == {"a"}

    asyncio.run(scenario())


@pytest.mark.parametrize("topic", [MetadataRequestTopic(name=None), MetadataRequestTopic(name="a", topic_id=b"x" * 16)])
@pytest.mark.parametrize("version", [10, 11])
def test_versions_10_and_11_carry_ids_but_do_not_answer_them(
    serve_metadata: Serve, version: int, topic: MetadataRequestTopic
) -> None:
    """In versions 10 and 11, a topic id or a missing name gets INVALID_REQUEST for every topic, with a name that is
    never null."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            request = MetadataRequest(topics=[topic])
            with pytest.raises(KafkaError) as caught:
                finish(metadata.handle(broker.request(version), request))
            response = metadata.error_response(request, version, caught.value.code, caught.value.message)
            assert [(t.name, t.error_code) for t in response.topics] == [(topic.name or "", ErrorCode.INVALID_REQUEST)]

    asyncio.run(scenario())


def test_authorized_operations_are_told_to_who_asks(serve_metadata: Serve) -> None:
    """Authorized operations are returned only if requested; without an authorizer, these are all operations of
    Kafka."""

    async def scenario() -> None:
        async with serve_metadata(NO_CREATION) as broker:
            await broker.metadata.create_topics([NewTopic("a")])
            response = await ask(
                broker,
                10,
                topics=by_name("a", "unknown"),
                include_topic_authorized_operations=True,
                include_cluster_authorized_operations=True,
            )
            assert [topic.topic_authorized_operations for topic in response.topics] == [3576, 3576]
            assert response.cluster_authorized_operations == 8096
            assert (await ask(broker, 10, topics=None)).cluster_authorized_operations == NOT_ASKED

    asyncio.run(scenario())


def test_a_partition_whose_leader_is_gone_has_none(serve_metadata: Serve) -> None:
    """A partition without a leader gets LEADER_NOT_AVAILABLE and an offline replica; version 0 omits replicas that
    are down."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await broker.metadata.create_topics([NewTopic("a")])
            await broker.store.transact({}, [Change("brokers/1", None), Change("live/1", None)])
            for version, replicas in ((12, [1]), (0, [])):
                response = await ask(broker, version, topics=by_name("a"))
                partition = response.topics[0].partitions[0]
                assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
                assert (partition.leader_id, partition.leader_epoch) == (-1, 0)
                assert partition.offline_replicas == [1]
                assert partition.replica_nodes == partition.isr_nodes == replicas
                assert response.brokers == []
                assert response.controller_id == -1

    asyncio.run(scenario())


@pytest.mark.parametrize("missing", ["new", "__consumer_offsets"])
def test_a_topic_that_can_not_be_created_hides_no_other_one(
    serve_metadata: Serve, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """On a full disk no topic can be created. A client that asks for a missing topic gets the brokers and its other
    topics, as in Kafka."""

    async def refuse(store: SqliteStore, conditions: Any, changes: Any) -> int:
        raise MetadataStoreError("database or disk is full")

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await broker.metadata.create_topics([NewTopic("a")])
            monkeypatch.setattr(SqliteStore, "transact", refuse)
            response = await ask(broker, 13, topics=by_name("a", missing))
            codes = {topic.name: topic.error_code for topic in response.topics}
            assert codes == {"a": ErrorCode.NONE, missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert [node.node_id for node in response.brokers] == [1]
            assert response.error_code == ErrorCode.NONE

    asyncio.run(scenario())


def test_a_topic_is_created_although_the_client_has_gone(serve_metadata: Serve) -> None:
    """A creation that has begun does not stop halfway. Before it, the names of deleted topics leave the checkpoints of
    the disk, and the broker takes them for gone as soon as that has begun."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            asked = begin(metadata.handle(broker.request(12), MetadataRequest(topics=by_name("new"))))
            assert isinstance(asked, asyncio.Task)
            prepared = asyncio.Event()

            async def prepare(names: Collection[str]) -> None:
                prepared.set()
                await asyncio.sleep(0)

            broker.metadata.before_creation(prepare)
            await prepared.wait()
            asked.cancel()
            await broker.metadata.alter_configs({})
            assert asked.cancelled()
            assert "new" in broker.metadata.image.topics

    asyncio.run(scenario())

"""Tests that requests which Kafka's controller answers know all earlier changes, through whichever broker these were
made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, NamedTuple

import pytest
from tests.support.event_loop import in_loop
from tests.support.metadata_brokers import ENDPOINTS, LateStore, connect
from tests.support.steps import finished
from tests.unit.broker.handlers.conftest import MetadataBroker

from klamm.broker.handlers.shared import newest_metadata
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.image import ResourceType
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.replicas.reassignments import Reassignment
from klamm.metadata.service import MetadataService, NewTopic
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.message import Message
from klamm.protocol.schema import alter_configs_request, incremental_alter_configs_request
from klamm.protocol.schema.alter_configs_request import AlterConfigsRequest
from klamm.protocol.schema.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.schema.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.schema.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from klamm.protocol.schema.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from klamm.protocol.schema.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from klamm.protocol.schema.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from klamm.protocol.types import BrokerId

NEW, OLD = "new", "old"
"""A topic that the other broker creates, or deletes, just before the request."""
NEW_BROKER = BrokerId(3)


class Late(NamedTuple):
    """Broker 2, which hears of the changes of broker 1 as late as it may."""

    broker: MetadataBroker
    store: LateStore


@asynccontextmanager
async def after_changes() -> AsyncIterator[Late]:
    """Serves broker 2, after broker 1 has changed topics and moved a partition, and broker 3 has joined."""
    metadata = MemoryMetadata()
    one, _ = await connect(metadata, 1)
    store, config = LateStore(metadata.connect()), BrokerConfig(node_id=BrokerId(2))
    two = await MetadataService.open(store, config)
    for service in (one, two):
        await service.start_broker(ENDPOINTS)
    old = await one.ensure_topic(NewTopic(OLD, assignments=[(0, [1])]))
    moving = NewTopic("moving", assignments=[(0, [1])])
    await one.ensure_topic(moving)
    await store.catch_up()
    before = two.image
    await one.delete_topics([old.topic_id])
    await one.ensure_topic(NewTopic(NEW, assignments=[(0, [1])]))
    await one.replicas.reassign([Reassignment("moving", 0, [1, 2])], allows_other_factor=True)
    three, _ = await connect(metadata, NEW_BROKER)
    await three.start_broker(ENDPOINTS)
    assert two.image is before
    try:
        yield Late(MetadataBroker(store, two, config), store)
    finally:
        for service in (one, two, three):
            await service.close()


def _creation(name: str, *, validate_only: bool = False) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=validate_only)


def _move(replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="moving", partitions=[partition])])


def _incremental_alteration() -> IncrementalAlterConfigsRequest:
    config = incremental_alter_configs_request.AlterableConfig(name="retention.ms", config_operation=0, value="7000")
    resource = incremental_alter_configs_request.AlterConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=NEW, configs=[config]
    )
    return IncrementalAlterConfigsRequest(resources=[resource])


def _alteration() -> AlterConfigsRequest:
    config = alter_configs_request.AlterableConfig(name="retention.ms", value="7000")
    resource = alter_configs_request.AlterConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=NEW, configs=[config]
    )
    return AlterConfigsRequest(resources=[resource])


class Case(NamedTuple):
    """A request, and what of its answer shows that the broker knows the earlier changes."""

    handler: str
    request: Callable[[], Message]
    seen: Callable[[Any], object]
    expected: object


CASES = {
    "creation after deletion": Case("create_topics", lambda: _creation(OLD), lambda r: r.topics[0].error_code, 0),
    "validation after creation": Case(
        "create_topics",
        lambda: _creation(NEW, validate_only=True),
        lambda r: r.topics[0].error_code,
        ErrorCode.TOPIC_ALREADY_EXISTS,
    ),
    "deletion after creation": Case(
        "delete_topics",
        lambda: DeleteTopicsRequest(topics=[DeleteTopicState(name=NEW)], timeout_ms=1000),
        lambda r: r.responses[0].error_code,
        0,
    ),
    "partitions after creation": Case(
        "create_partitions",
        lambda: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=NEW, count=2, assignments=None)], timeout_ms=1000
        ),
        lambda r: r.results[0].error_code,
        0,
    ),
    "elections after creation": Case(
        "elect_leaders",
        lambda: ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=NEW, partitions=[0])], timeout_ms=1000),
        lambda r: r.replica_election_results[0].partition_result[0].error_code,
        ErrorCode.ELECTION_NOT_NEEDED,
    ),
    "elections of all": Case(
        "elect_leaders",
        lambda: ElectLeadersRequest(topic_partitions=None, timeout_ms=1000),
        lambda r: {each.topic for each in r.replica_election_results},
        {NEW, "moving"},
    ),
    "settings after creation": Case(
        "incremental_alter_configs", _incremental_alteration, lambda r: r.responses[0].error_code, 0
    ),
    "all settings after creation": Case("alter_configs", _alteration, lambda r: r.responses[0].error_code, 0),
    "list of moves": Case(
        "list_partition_reassignments",
        lambda: ListPartitionReassignmentsRequest(topics=None),
        lambda r: [(topic.name, topic.partitions[0].adding_replicas) for topic in r.topics],
        [("moving", [2])],
    ),
    "cancellation of a move": Case(
        "alter_partition_reassignments", lambda: _move(None), lambda r: r.responses[0].partitions[0].error_code, 0
    ),
    "move to a new broker": Case(
        "alter_partition_reassignments",
        lambda: _move([1, NEW_BROKER]),
        lambda r: r.responses[0].partitions[0].error_code,
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_request_knows_earlier_changes_through_other_brokers(name: str) -> None:
    """A client that was told of a change through one broker finds the change in force at the next broker."""
    case = CASES[name]

    async def scenario() -> None:
        async with after_changes() as late:
            handler = import_module(f"klamm.broker.handlers.{case.handler}")
            answer = await finished(handler.handle(late.broker.request(1), case.request()))
            assert case.seen(answer) == case.expected

    asyncio.run(scenario())


UNAVAILABLE: dict[str, Callable[[], Message]] = {
    **{case.handler: case.request for case in CASES.values()},
    "describe_quorum": lambda: DescribeQuorumRequest(
        topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
    ),
    "update_features": lambda: UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="group.version", max_version_level=1)]
    ),
}
"""A request of each API, by its handler."""


@pytest.mark.parametrize("handler", UNAVAILABLE)
def test_a_request_fails_if_the_store_is_not_available(handler: str) -> None:
    """Without the metadata store a broker can't know what it has missed. The error lets clients try again."""

    async def scenario() -> None:
        async with after_changes() as late:
            late.store.inner.lose()
            handle = import_module(f"klamm.broker.handlers.{handler}").handle
            with pytest.raises(KafkaError) as caught:
                await finished(handle(late.broker.request(1), UNAVAILABLE[handler]()))
            assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR

    asyncio.run(scenario())


@in_loop
async def test_a_request_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the changes do not arrive in time, the request gets REQUEST_TIMED_OUT, which lets clients try again."""
    monkeypatch.setattr(newest_metadata, "_PATIENCE_S", 0)
    async with after_changes() as late:
        monkeypatch.setattr(late.store, "catch_up", asyncio.Event().wait)
        with pytest.raises(KafkaError) as caught:
            await finished(newest_metadata.reach_newest_metadata(late.broker.request(0)))
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT

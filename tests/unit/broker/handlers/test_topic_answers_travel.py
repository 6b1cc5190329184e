"""Tests that the answers of the topic and cluster handlers can be encoded in every version that they serve."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any

import pytest
from tests.support.steps import finish, finished

from klamm.broker.handlers import create_topics, describe_topic_partitions, metadata
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.service import NewTopic
from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.schema.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.schema.describe_cluster_request import DescribeClusterRequest
from klamm.protocol.schema.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic

Serve = Callable[[BrokerConfig], AbstractAsyncContextManager[Any]]


NAMES = ("known", "not legal", "unknown")
# Each request has topics that succeed and topics that fail, if the API allows that.
REQUESTS: dict[ApiKey, Callable[[int], Message]] = {
    ApiKey.METADATA: lambda version: MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in NAMES],
        include_topic_authorized_operations=version >= 8,
        include_cluster_authorized_operations=8 <= version <= 10,
    ),
    ApiKey.CREATE_TOPICS: lambda version: CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("new", *NAMES)]
    ),
    ApiKey.DELETE_TOPICS: lambda version: DeleteTopicsRequest(
        topic_names=[] if version >= 6 else list(NAMES),
        topics=[DeleteTopicState(topic_id=b"?" * 16), DeleteTopicState(name="known")] if version >= 6 else [],
        timeout_ms=10_000,
    ),
    ApiKey.CREATE_PARTITIONS: lambda version: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=2, assignments=None) for name in NAMES], timeout_ms=10_000
    ),
    ApiKey.ELECT_LEADERS: lambda version: ElectLeadersRequest(
        topic_partitions=[TopicPartitions(topic=name, partitions=[0, 1]) for name in NAMES]
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda version: AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=0, replicas=[1])])
            for name in NAMES
        ]
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda version: DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in NAMES]
    ),
    ApiKey.DESCRIBE_CLUSTER: lambda version: DescribeClusterRequest(include_cluster_authorized_operations=True),
    ApiKey.INIT_PRODUCER_ID: lambda version: InitProducerIdRequest(transactional_id=None),
}
VERSIONS = [
    (key, version) for key in REQUESTS for version in range(API_SPECS[key].min_version, API_SPECS[key].max_version + 1)
]


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=lambda value: getattr(value, "name", value))
def test_every_version_can_carry_the_answer_and_the_refusal(serve_metadata: Serve, key: ApiKey, version: int) -> None:
    """Every version can encode and decode the answer and the error response."""
    handler = import_module(f"klamm.broker.handlers.{key.name.lower()}")

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            await broker.metadata.create_topics([NewTopic("known")])
            wire = encode(REQUESTS[key](version), version)
            request, _ = decode(API_SPECS[key].request_class(), version, wire)
            response = handler.handle(broker.request(version), request)
            answer = await finished(response)
            for each in (answer, handler.error_response(request, version, ErrorCode.INVALID_REQUEST, "why")):
                wire = encode(each, version)
                decoded, end = decode(type(each), version, wire)
                assert end == len(wire)
                assert encode(decoded, version) == wire

    asyncio.run(scenario())


def test_a_large_cluster_is_described_in_one_piece(serve_metadata: Serve) -> None:
    """A large cluster is described in one answer, with the same leaders in Metadata and DescribeTopicPartitions."""

    async def scenario() -> None:
        async with serve_metadata(BrokerConfig()) as broker:
            wanted_changes = [CreatableTopic(name=f"t{n}", num_partitions=6, replication_factor=1) for n in range(100)]
            await finished(create_topics.handle(broker.request(7), CreateTopicsRequest(topics=wanted_changes)))
            answer = await finished(metadata.handle(broker.request(13), MetadataRequest(topics=None)))
            decoded, _ = decode(type(answer), 13, encode(answer, 13))
            assert decoded == answer
            leaders = {(t.name, p.partition_index): p.leader_id for t in decoded.topics for p in t.partitions}
            described = finish(describe_topic_partitions.handle(broker.request(0), DescribeTopicPartitionsRequest()))
            assert leaders == {(t.name, p.partition_index): p.leader_id for t in described.topics for p in t.partitions}
            assert len(leaders) == 600

    asyncio.run(scenario())

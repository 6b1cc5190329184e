"""Brokers with several listeners: each client gets addresses of its own listener, and brokers talk through one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.several_brokers import SeveralBrokers
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.schema.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.describe_cluster_request import DescribeClusterRequest
from klamm.protocol.schema.describe_cluster_response import DescribeClusterResponse
from klamm.protocol.schema.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from klamm.protocol.schema.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.protocol.schema.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from klamm.protocol.schema.write_txn_markers_response import WriteTxnMarkersResponse

TOPIC = "topic"
BROKERS, CLIENTS = 0, 1
"""The listeners of brokers 2 and 3. Broker 1 has only the first."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    """Runs three brokers with a topic that has a partition on each."""
    config = {
        "listeners": "BROKERS://127.0.0.1:0,CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "BROKERS:PLAINTEXT,CLIENTS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
    }
    own = {1: {"listeners": "BROKERS://127.0.0.1:0"}}
    with SeveralBrokers(tmp_path_factory.mktemp("brokers"), 3, config, own) as brokers:
        with Wire(brokers.address(1)) as wire:
            topic = CreatableTopic(name=TOPIC, num_partitions=3, replication_factor=1)
            response = wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
            assert response.topics[0].error_code == ErrorCode.NONE
        assert sorted(brokers.leaders(TOPIC)) == [1, 2, 3]
        yield brokers


def test_clients_get_the_addresses_of_their_listener(brokers: SeveralBrokers) -> None:
    """Metadata and DescribeCluster have the brokers that have the client's listener, with its real port. The
    controller is one of them, because any broker takes administrative requests."""
    for listener, ids in ((BROKERS, [1, 2, 3]), (CLIENTS, [2, 3])):
        expected = {node_id: brokers.address(node_id, listener) for node_id in ids}
        for node_id in ids:
            with Wire(brokers.address(node_id, listener)) as wire:
                metadata = wire.call(MetadataResponse, 12, MetadataRequest(topics=[]))
                assert {each.node_id: f"{each.host}:{each.port}" for each in metadata.brokers} == expected
                assert metadata.controller_id == ids[0]
                cluster = wire.call(DescribeClusterResponse, 1, DescribeClusterRequest())
                assert {each.broker_id: f"{each.host}:{each.port}" for each in cluster.brokers} == expected
                assert cluster.controller_id == ids[0]


@pytest.mark.parametrize(("version", "code"), [(12, ErrorCode.LISTENER_NOT_FOUND), (5, ErrorCode.LEADER_NOT_AVAILABLE)])
def test_a_leader_without_the_clients_listener(brokers: SeveralBrokers, version: int, code: ErrorCode) -> None:
    """The partition has no leader for the client, and its replica is offline, as `KRaftMetadataCache` answers."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    with Wire(brokers.address(2, CLIENTS)) as wire:
        response = wire.call(MetadataResponse, version, request)
        page = wire.call(
            DescribeTopicPartitionsResponse, 0, DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)])
        )
    leaders = brokers.leaders(TOPIC)
    partitions = {each.partition_index: each for each in response.topics[0].partitions}
    for index, leader in enumerate(leaders):
        partition = partitions[index]
        found = (partition.error_code, partition.leader_id, partition.offline_replicas)
        assert found == ((code, -1, [1]) if leader == 1 else (ErrorCode.NONE, leader, []))
        described = page.topics[0].partitions[index]
        assert (described.leader_id, described.offline_replicas) == ((-1, [1]) if leader == 1 else (leader, []))


def test_requests_for_brokers_are_refused_on_other_listeners(brokers: SeveralBrokers) -> None:
    """Only the listener of the brokers takes WriteTxnMarkers, and AddPartitionsToTxn from version 4 on. The version for
    clients is taken everywhere."""
    marker = WritableTxnMarker(
        producer_id=1, topics=[WritableTxnMarkerTopic(name="missing", partition_indexes=[0])], coordinator_epoch=1
    )
    topics = [AddPartitionsToTxnTopic(name="missing", partitions=[0])]
    transaction = AddPartitionsToTxnTransaction(transactional_id="id", producer_id=1, topics=topics)
    outcomes = {}
    for listener in (BROKERS, CLIENTS):
        with Wire(brokers.address(2, listener)) as wire:
            markers = wire.call(WriteTxnMarkersResponse, 1, WriteTxnMarkersRequest(markers=[marker]))
            for_brokers = wire.call(
                AddPartitionsToTxnResponse, 5, AddPartitionsToTxnRequest(transactions=[transaction])
            )
            for_clients = wire.call(
                AddPartitionsToTxnResponse,
                3,
                AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id="id",
                    v3_and_below_producer_id=1,
                    v3_and_below_topics=topics,
                ),
            )
        (result,) = for_clients.results_by_topic_v3_and_below
        outcomes[listener] = (
            markers.markers[0].topics[0].partitions[0].error_code,
            for_brokers.error_code,
            result.results_by_partition[0].partition_error_code,
        )
    unknown, refused = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert outcomes == {BROKERS: (unknown, ErrorCode.NONE, unknown), CLIENTS: (refused, refused, unknown)}

"""Offsets are listed in one round trip; retriable errors are retried, other errors are raised."""

from __future__ import annotations

import pytest
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.cluster import Cluster
from klamm.client.errors import GaveUp, RequestRefused
from klamm.client.list_offsets import EARLIEST, LATEST, latest_offsets, list_offsets
from klamm.protocol.schema.list_offsets_request import ListOffsetsRequest
from klamm.protocol.schema.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.protocol.types import PartitionIndex, TopicPartition


def tp(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, PartitionIndex(partition))


def answer(request: ListOffsetsRequest, partitions: int = 1, error_code: int = 0) -> ListOffsetsResponse:
    """Returns offset 100 + partition for each partition that exists."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index,
                        error_code=error_code if asked.partition_index < partitions else 3,
                        offset=100 + asked.partition_index,
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def test_the_request_says_what_a_consumer_knows(broker: ScriptedBroker, cluster: Cluster) -> None:
    """The request contains the leader epoch, so that an old leader is detected (KIP-320), and the isolation level."""
    requests: list[ListOffsetsRequest] = []

    def remember(request: ListOffsetsRequest) -> ListOffsetsResponse:
        requests.append(request)
        return answer(request)

    broker.on(ListOffsetsRequest, remember)

    assert list_offsets(cluster, {tp(0): EARLIEST})[tp(0)].offset == 100

    (partition,) = requests[0].topics[0].partitions
    assert (partition.timestamp, partition.current_leader_epoch) == (-2, 5)
    assert (requests[0].replica_id, requests[0].isolation_level) == (-1, 0)


@pytest.mark.parametrize("code", [5, 6, 74, 78])
def test_an_error_that_passes_is_asked_again(broker: ScriptedBroker, cluster: Cluster, code: int) -> None:
    """After a retriable error the client refreshes the metadata and retries."""
    broker.on(ListOffsetsRequest, lambda request: answer(request, error_code=code), answer)

    assert list_offsets(cluster, {tp(0): LATEST})[tp(0)].offset == 100
    assert [key for key, _ in broker.seen] == [18, 3, 2, 3, 2]


def test_a_connection_that_breaks_is_made_again(broker: ScriptedBroker, cluster: Cluster) -> None:
    """A broken connection, for example after a broker restart, is opened again."""
    broker.on(ListOffsetsRequest, lambda _: None, answer)

    assert list_offsets(cluster, {tp(0): LATEST})[tp(0)].offset == 100


def test_an_error_that_does_not_pass_is_raised(broker: ScriptedBroker, cluster: Cluster) -> None:
    """A permanent error is raised at once with Kafka's error name."""
    broker.on(ListOffsetsRequest, lambda request: answer(request, error_code=29))

    with pytest.raises(RequestRefused, match=r"TOPIC_AUTHORIZATION_FAILED.*t-0"):
        list_offsets(cluster, {tp(0): LATEST})


def test_patience_ends(broker: ScriptedBroker, cluster: Cluster) -> None:
    """After the timeout the error names the operation and the last cause."""
    broker.on(ListOffsetsRequest, lambda request: answer(request, error_code=6))

    with pytest.raises(GaveUp, match=r"list the offsets of t-0.*3000: t-0: NOT_LEADER_OR_FOLLOWER"):
        list_offsets(cluster, {tp(0): LATEST})


def test_what_does_not_exist_is_left_out(broker: ScriptedBroker, cluster: Cluster) -> None:
    """Unknown partitions are left out of the result; the caller decides whether that is an error."""
    broker.on(ListOffsetsRequest, answer)

    assert list_offsets(cluster, {tp(0): LATEST, tp(7): LATEST, tp(0, "missing"): LATEST}).keys() == {tp(0)}


def test_latest_offsets_cost_one_round_trip(broker: ScriptedBroker, cluster: Cluster) -> None:
    """A repeated call of latest_offsets sends one request, because an idle query calls it many times a second."""
    broker.on(ListOffsetsRequest, answer)
    latest_offsets(cluster, ["t"])
    asked = len(broker.seen)

    assert latest_offsets(cluster, ["t"]) == {tp(0): 100}
    assert [key for key, _ in broker.seen[asked:]] == [2]


def test_a_topic_that_has_grown_is_noticed_at_once(broker: ScriptedBroker, cluster: Cluster) -> None:
    """New partitions are found at once, because each request also asks for the partition after the last one. The
    metadata may show them later."""
    broker.on(ListOffsetsRequest, answer)
    latest_offsets(cluster, ["t"])
    broker.on(ListOffsetsRequest, lambda request: answer(request, partitions=3))

    def grow(request: MetadataRequest) -> MetadataResponse:
        broker.partitions = 3
        return broker.metadata(request)

    broker.on(MetadataRequest, broker.metadata, grow)

    assert latest_offsets(cluster, ["t"]) == {tp(0): 100, tp(1): 101, tp(2): 102}


def test_a_topic_that_appears_is_noticed(broker: ScriptedBroker, cluster: Cluster) -> None:
    """Each call looks for a missing topic in the metadata."""
    broker.on(ListOffsetsRequest, answer)
    assert latest_offsets(cluster, ["missing", "t"]) == {tp(0): 100}
    asked = len(broker.seen)

    latest_offsets(cluster, ["missing", "t"])

    assert (3, 13) in broker.seen[asked:]

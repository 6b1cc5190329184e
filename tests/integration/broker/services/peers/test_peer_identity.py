"""Clients that send a broker's id, to a leader with followers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.wire import Wire

from klamm.broker.server import BrokerServer
from klamm.broker.services.peers.peer_identity import MECHANISM, prove_identity
from klamm.client.aio import AsyncConnection
from klamm.client.config import ClientConfig
from klamm.client.errors import AuthenticationFailed
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.schema.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.schema.sasl_authenticate_request import SaslAuthenticateRequest
from klamm.protocol.schema.sasl_authenticate_response import SaslAuthenticateResponse
from klamm.protocol.schema.sasl_handshake_request import SaslHandshakeRequest
from klamm.protocol.schema.sasl_handshake_response import SaslHandshakeResponse
from klamm.protocol.types import BrokerId, TopicId
from klamm.testing import Cluster

TOPIC = "guarded"
LEADER, FOLLOWER = 1, 2


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two brokers, of which the second is in sync until it has not fetched for a minute."""
    config = {"replica.lag.time.max.ms": "60000"}
    with Cluster(2, replication_factor=2, config=config, session_timeout_ms=60_000) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 2)])[TOPIC].result()
        running.move_leader(TOPIC, 0, LEADER)
        yield running


async def _topic_id(server: BrokerServer) -> TopicId:
    assert server.context is not None
    return server.context.metadata.image.topics[TOPIC].topic_id


async def _epoch(server: BrokerServer, broker: int) -> int:
    assert server.context is not None
    return server.context.metadata.image.brokers[BrokerId(broker)].epoch


async def _run(server: BrokerServer, broker: int) -> str:
    assert server.context is not None
    return server.context.metadata.image.live[BrokerId(broker)].incarnation


def _high_watermark(wire: Wire) -> int:
    wanted = ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    answer = wire.call(ListOffsetsResponse, 7, ListOffsetsRequest(replica_id=-1, topics=[wanted]))
    return answer.topics[0].partitions[0].offset


def test_a_client_cannot_move_the_high_watermark(cluster: Cluster) -> None:
    """A client that fetches with the id and the epoch of a follower is refused, and nothing becomes committed."""
    topic_id = cluster.run_in_broker(LEADER, _topic_id)
    epoch = cluster.run_in_broker(LEADER, partial(_epoch, broker=FOLLOWER))
    cluster.pause(FOLLOWER)
    producer = Producer({"bootstrap.servers": cluster.address_of(LEADER), "acks": 1})
    producer.produce(TOPIC, b"not copied")
    assert producer.flush(60) == 0
    with Wire(cluster.address_of(LEADER)) as wire:
        before = _high_watermark(wire)
        wanted = FetchPartition(0, -1, 1, -1, 0, 1_000_000)
        answer = wire.fetch(
            17,
            FetchRequest(
                FOLLOWER, 0, 1, 1_000_000, 0, 0, -1, [FetchTopic(None, topic_id, [wanted])], [], replica_epoch=epoch
            ),
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert _high_watermark(wire) == before == 0
    cluster.resume(FOLLOWER)


def test_a_client_that_does_not_know_the_run_is_no_broker(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """The id of a run is accepted as a proof for that broker only, and one log line names the sender otherwise."""
    run = cluster.run_in_broker(LEADER, partial(_run, broker=FOLLOWER))
    host, port = cluster.address_of(LEADER).split(":")
    address = (host, int(port))

    async def prove(server: BrokerServer, broker: int) -> None:
        connection = await AsyncConnection.open(address, ClientConfig(bootstrap_servers=(address,)))
        try:
            await prove_identity(connection, BrokerId(broker), run)
        finally:
            connection.close()

    cluster.run_in_broker(FOLLOWER, partial(prove, broker=FOLLOWER))
    with caplog.at_level(logging.WARNING), pytest.raises(AuthenticationFailed, match="present run"):
        cluster.run_in_broker(FOLLOWER, partial(prove, broker=LEADER))
    assert [record for record in caplog.records if "is not accepted as a broker" in record.getMessage()]


def test_clients_get_the_answers_of_a_listener_without_sasl(cluster: Cluster) -> None:
    """ILLEGAL_SASL_STATE for the mechanisms of clients, and for a token without a handshake."""
    with Wire(cluster.address_of(LEADER)) as wire:
        for mechanism in ("PLAIN", "SCRAM-SHA-256", MECHANISM.lower()):
            answer = wire.call(SaslHandshakeResponse, 1, SaslHandshakeRequest(mechanism=mechanism))
            assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])
        token = wire.call(SaslAuthenticateResponse, 2, SaslAuthenticateRequest(auth_bytes=b"n,,n=2,r=x"))
        assert token.error_code == ErrorCode.ILLEGAL_SASL_STATE

"""Tests the UnregisterBroker API with three brokers, of which one is away, or alive."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from confluent_kafka.admin import AdminClient
from tests.support.patience import Limit
from tests.support.spark_topics import Topic, create_topic
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.unregister_broker_request import UnregisterBrokerRequest
from klamm.protocol.schema.unregister_broker_response import UnregisterBrokerResponse
from klamm.testing import Cluster

PATIENCE_S = 20


def unregister(cluster: Cluster, broker: int, asked: int = 1) -> ErrorCode:
    """Asks a broker to unregister another one, or itself."""
    with Wire(cluster.address_of(asked)) as wire:
        response = wire.call(UnregisterBrokerResponse, 0, UnregisterBrokerRequest(broker_id=broker))
        return ErrorCode(response.error_code)


def orders(cluster: Cluster, replicas: int = 1) -> Topic:
    """Creates a topic with three records in its first partition."""
    servers = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    topic = create_topic(admin, servers, "orders", 3, {}, replication_factor=replicas)
    topic.produce(range(3), 0)
    return topic


def is_running(cluster: Cluster, broker: int) -> bool:
    """Returns whether a broker answers."""
    try:
        Wire(cluster.address_of(broker)).socket.close()
    except OSError:
        return False
    return True


def test_a_broker_that_is_away_is_unregistered_and_may_come_back() -> None:
    """It is unregistered once; when it starts again, it registers again and leads its partitions, with their
    records."""
    with Cluster(brokers=3) as cluster:
        topic = orders(cluster)
        leader = cluster.leader_of("orders", 0)
        assert leader is not None
        away = leader if leader != 1 else 2
        cluster.kill(away)
        assert unregister(cluster, away) is ErrorCode.NONE
        assert unregister(cluster, away) is ErrorCode.BROKER_ID_NOT_REGISTERED
        cluster.restart(away)
        assert cluster.leader_of("orders", 0) == leader
        assert [record.value for record in topic.records()[0]] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("asked", [1, 3])
def test_a_live_broker_stops_when_it_is_unregistered(asked: int) -> None:
    """The request may come to the broker itself, and is answered. The broker hands its partitions over and ends;
    another replica leads, with all records. When the broker is started again, it is in sync again."""
    with Cluster(brokers=3, replication_factor=3) as cluster:
        topic = orders(cluster, replicas=3)
        cluster.move_leader("orders", 0, to=3)
        assert unregister(cluster, 3, asked) is ErrorCode.NONE
        assert unregister(cluster, 3) is ErrorCode.BROKER_ID_NOT_REGISTERED
        limit = Limit(PATIENCE_S)
        while is_running(cluster, 3) and not limit.is_over:
            time.sleep(0.05)
        assert not is_running(cluster, 3)
        assert cluster.leader_of("orders", 0) in (1, 2)
        assert [record.value for record in topic.records()[0]] == [b"0", b"1", b"2"]
        cluster.restart(3)
        limit = Limit(PATIENCE_S)
        while cluster.leader_of("orders", 0) != 3 and not limit.is_over:
            with suppress(KafkaError):  # it is not in sync yet
                cluster.move_leader("orders", 0, to=3)
        assert cluster.leader_of("orders", 0) == 3
        assert [record.value for record in topic.records()[0]] == [b"0", b"1", b"2"]

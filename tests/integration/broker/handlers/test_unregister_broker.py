"""Tests the UnregisterBroker API with three brokers, one of which goes away and comes back."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient
from tests.support.spark_topics import create_topic
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.unregister_broker_request import UnregisterBrokerRequest
from klamm.protocol.schema.unregister_broker_response import UnregisterBrokerResponse
from klamm.testing import Cluster


def unregister(cluster: Cluster, broker: int) -> ErrorCode:
    """Asks broker 1 to unregister another one."""
    with Wire(cluster.address_of(1)) as wire:
        response = wire.call(UnregisterBrokerResponse, 0, UnregisterBrokerRequest(broker_id=broker))
        return ErrorCode(response.error_code)


def test_live_broker_is_refused_and_a_dead_one_may_come_back() -> None:
    """A live broker, this one or another, is refused. A broker that is away is unregistered, once; when it starts
    again, it registers again and leads its partitions, with their records."""
    with Cluster(brokers=3) as cluster:
        topic = create_topic(
            AdminClient({"bootstrap.servers": cluster.bootstrap_servers}), cluster.bootstrap_servers, "orders", 3, {}
        )
        topic.produce(range(3), 0)
        leader = cluster.leader_of("orders", 0)
        assert leader is not None
        away = leader if leader != 1 else 2
        assert {unregister(cluster, broker) for broker in cluster.brokers} == {ErrorCode.INVALID_REQUEST}
        cluster.kill(away)
        assert unregister(cluster, away) is ErrorCode.NONE
        assert unregister(cluster, away) is ErrorCode.BROKER_ID_NOT_REGISTERED
        cluster.restart(away)
        assert unregister(cluster, away) is ErrorCode.INVALID_REQUEST
        assert cluster.leader_of("orders", 0) == leader
        assert [record.value for record in topic.records()[0]] == [b"0", b"1", b"2"]

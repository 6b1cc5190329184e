"""Coordinators skip, log and count records that they can't read, and serve all other groups and transactions."""

from __future__ import annotations

import logging
import re
import urllib.request

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.testing import Broker

TOPICS = ("__consumer_offsets", "__transaction_state")


def _create_orders(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(30)


def _produce(broker: Broker, topic: str, key: bytes, client_id: str) -> object:
    """Writes a record into each partition of an internal topic; returns the last error."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": client_id, "linger.ms": 0})
    errors: list[object] = []
    count = len(producer.list_topics(topic).topics[topic].partitions)
    for partition in range(count):
        producer.produce(topic, b"?", key, partition=partition, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    return errors[-1]


def _commit(broker: Broker, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def _committed(broker: Broker) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
    (found,) = consumer.committed([TopicPartition("orders", 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def _transact(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "writer"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"value")
    producer.commit_transaction(30)


def test_one_record_does_not_take_a_coordinator_away(caplog: pytest.LogCaptureFixture) -> None:
    """Groups and transactions work before and after a restart, although each partition has a record with an unreadable
    key."""
    caplog.set_level(logging.INFO, "klamm.broker.server")
    settings = {"klamm.metrics.listener": "127.0.0.1:0", "offsets.topic.num.partitions": "2"}
    with Broker(config={**settings, "transaction.state.log.num.partitions": "2"}) as broker:
        _create_orders(broker)
        _commit(broker, 1)
        _transact(broker)
        for topic in TOPICS:
            assert _produce(broker, topic, b"\x00", "__admin_client") is None
        assert _committed(broker) == 1
        broker.stop()
        broker.start()
        assert _committed(broker) == 1
        _commit(broker, 2)
        assert _committed(broker) == 2
        _transact(broker)
        for topic in TOPICS:
            lines = [
                line for line in caplog.messages if f"of {topic}-" in line and "can't be read and is skipped" in line
            ]
            assert lines
            assert f'klamm_coordinator_skipped_records{{topic="{topic}"}} 2.0\n' in _page(caplog)


def _page(caplog: pytest.LogCaptureFixture) -> str:
    ports = [match[1] for match in (re.search(r"port (\d+) of ", each) for each in caplog.messages) if match]
    with urllib.request.urlopen(f"http://127.0.0.1:{ports[-1]}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("topic", TOPICS)
def test_only_the_admin_client_may_write_to_internal_topics(topic: str) -> None:
    """A client with another client id than Kafka's admin client gets INVALID_TOPIC_EXCEPTION for an internal topic, as
    in Kafka (`AdminUtils`)."""
    with Broker() as broker:
        _create_orders(broker)
        _commit(broker, 1)
        _transact(broker)
        error = _produce(broker, topic, b"key", "anybody")
        assert isinstance(error, KafkaError)
        assert error.code() == KafkaError.TOPIC_EXCEPTION

"""Tests that all clients write a key to the same partition, so that a topic can change its writers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.java_client import JavaClient

# The lengths cover every tail of murmur2's loop over four bytes. Bytes above 127 detect clients that treat bytes as
# signed.
KEYS = ["0123456789"[:length] for length in range(1, 10)]
KEYS += [f"{letter}-{number}" for number in range(30) for letter in ("key", "größe", "ключ", "鍵", "🗝")]


def _partitions(client: ClientProcess, topic: str) -> dict[str, int]:
    records: list[dict[str, Any]] = [{"key": key, "value": key} for key in KEYS]
    places = client.call("produce", topic=topic, records=records)
    return {key: partition for key, (partition, _, _) in zip(KEYS, places, strict=True)}


@pytest.fixture
def by_librdkafka(new_python_client: Callable[[str], ClientProcess], topic: str) -> dict[str, int]:
    """The partition of each key with librdkafka's partitioner murmur2_random, which `klamm produce` uses."""
    return _by_python(new_python_client, "confluent_kafka", topic)


def _by_python(new_python_client: Callable[[str], ClientProcess], name: str, topic: str) -> dict[str, int]:
    client = new_python_client(name)
    try:
        return _partitions(client, topic)
    finally:
        client.close()


@pytest.mark.parametrize("name", ["aiokafka", "kafka_python"])
def test_python_clients_agree_with_librdkafka(
    new_python_client: Callable[[str], ClientProcess], by_librdkafka: dict[str, int], topic: str, name: str
) -> None:
    """The default partitioners of aiokafka and kafka-python choose the same partitions as murmur2_random."""
    assert _by_python(new_python_client, name, topic) == by_librdkafka


@pytest.mark.java
def test_java_agrees_with_librdkafka(java: JavaClient, by_librdkafka: dict[str, int], topic: str) -> None:
    """The Java producer, on whose partitioner the other clients are modelled, chooses the same partitions as
    murmur2_random."""
    assert _partitions(java, topic) == by_librdkafka


@pytest.mark.node
def test_kafkajs_agrees_with_librdkafka(
    new_node_client: Callable[[], ClientProcess], by_librdkafka: dict[str, int], topic: str
) -> None:
    """The default partitioner of kafkajs chooses the same partitions as murmur2_random."""
    client = new_node_client()
    try:
        assert _partitions(client, topic) == by_librdkafka
    finally:
        client.close()

"""A key goes to the same partition whichever client writes it, so that a topic's writers may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.java_client import JavaClient

# Lengths 0 to 9 go through every tail of murmur2's loop over four bytes; bytes above 127 show who takes them as signed.
KEYS = ["0123456789"[:length] for length in range(1, 10)]
KEYS += [f"{letter}-{number}" for number in range(30) for letter in ("key", "größe", "ключ", "鍵", "🗝")]


def _partitions(client: ClientProcess, topic: str) -> dict[str, int]:
    records: list[dict[str, Any]] = [{"key": key, "value": key} for key in KEYS]
    places = client.call("produce", topic=topic, records=records)
    return {key: partition for key, (partition, _, _) in zip(KEYS, places, strict=True)}


@pytest.fixture
def by_librdkafka(new_python_client: Callable[[str], ClientProcess], topic: str) -> dict[str, int]:
    """Where librdkafka's partitioner murmur2_random puts each key; `klamm produce` uses it."""
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
    """The default partitioners of aiokafka and kafka-python put keys where murmur2_random does."""
    assert _by_python(new_python_client, name, topic) == by_librdkafka


@pytest.mark.java
def test_java_agrees_with_librdkafka(java: JavaClient, by_librdkafka: dict[str, int], topic: str) -> None:
    """The Java producer, whose partitioner the others were made after, puts keys there too."""
    assert _partitions(java, topic) == by_librdkafka


@pytest.mark.node
def test_kafkajs_agrees_with_librdkafka(
    new_node_client: Callable[[], ClientProcess], by_librdkafka: dict[str, int], topic: str
) -> None:
    """The default partitioner of kafkajs puts keys there too."""
    client = new_node_client()
    try:
        assert _partitions(client, topic) == by_librdkafka
    finally:
        client.close()

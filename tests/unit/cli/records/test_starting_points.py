"""Tests where `klamm consume` begins if a lookup fails."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from klamm.cli.records.starting_points import start, starting_points
from klamm.insight.errors import ClusterError


class _Consumer:
    """A consumer of a topic with one partition, whose leader refuses lookups by time."""

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(topics={"orders": SimpleNamespace(partitions={0: None}, error=None)})

    def offsets_for_times(self, moments: list[TopicPartition], timeout: float) -> Any:
        return [SimpleNamespace(offset=-1001, error=KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))]


def test_a_failed_lookup_by_time_is_an_error() -> None:
    """The end of the partition in its place would skip all records."""
    arguments = argparse.Namespace(
        topics=["orders"],
        partition=None,
        start=start("2026-01-31T12:00:00"),
        bootstrap_server="localhost:9092",
        properties=[],
        context=None,
    )
    consumer: Any = _Consumer()
    with pytest.raises(ClusterError, match="NOT_LEADER"):
        starting_points(arguments, consumer)

"""Tests the reader of a partition whose leader is away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.insight.topic.partition_records import PartitionReader


class _Consumer:
    """A consumer of a partition with ten records whose leader is away."""

    def offsets_for_times(self, moments: list[TopicPartition], timeout: float) -> Any:
        return [SimpleNamespace(offset=-1001, error=KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))]

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, 10

    def assign(self, places: list[TopicPartition]) -> None:
        pass

    def poll(self, timeout: float) -> None:
        """Returns nothing, as if the time were over."""


class _Access(ClusterAccess):
    def connect(self, new_client: Any, **settings: Any) -> Any:
        return _Consumer()


def test_a_failed_lookup_by_time_is_an_error() -> None:
    """The end of the partition in its place would skip all records."""
    with pytest.raises(ClusterError, match="NOT_LEADER"):
        PartitionReader(_Access("localhost:9092")).offset_at("orders", 0, 1_000)


def test_a_partition_that_falls_silent_before_its_end_is_an_error() -> None:
    """A command that reads up to the end must not wait for ever for a leader that is away."""
    reader = PartitionReader(_Access("localhost:9092"))
    with pytest.raises(ClusterError, match="nothing arrives from orders-0"):
        next(reader.read("orders", 0))

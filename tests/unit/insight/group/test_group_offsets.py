"""Tests the rule for the lag, and lookups of offsets."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.errors import ClusterError
from klamm.insight.group.group_offsets import lag, offsets_at


@pytest.mark.parametrize(
    ("committed", "log_start", "high_watermark", "expected"),
    [
        (3, 0, 10, 7),
        (10, 0, 10, 0),
        (0, 4, 10, 6),  # four of the unread records are deleted
        (0, 10, 10, 0),  # all unread records are deleted
        (12, 0, 10, 0),  # the log was truncated below the commit
        (None, 0, 10, None),
        (3, None, None, None),  # the topic is deleted
        (0, 0, 0, 0),
    ],
)
def test_lag_counts_the_records_that_can_still_be_read(
    committed: int | None, log_start: int | None, high_watermark: int | None, expected: int | None
) -> None:
    """The lag is max(0, high watermark - max(committed, log start)); without a commit there is no lag."""
    assert lag(committed, log_start, high_watermark) == expected


class _Admin:
    """An admin client of one partition, which finds the ends, and fails for lookups by time."""

    def __init__(self, by_time: int | KafkaError) -> None:
        self._by_time = by_time

    def list_offsets(self, asked: dict[TopicPartition, OffsetSpec]) -> dict[TopicPartition, Future[Any]]:
        futures = {}
        for partition, spec in asked.items():
            future: Future[Any] = Future()
            found = {-2: 3, -1: 10}.get(spec._value, self._by_time)
            if isinstance(found, KafkaError):
                future.set_exception(KafkaException(found))
            else:
                future.set_result(SimpleNamespace(offset=found))
            futures[partition] = future
        return futures


def _at(by_time: int | KafkaError) -> dict[tuple[str, int], int]:
    admin: Any = _Admin(by_time)
    return offsets_at(ClusterAccess("localhost:9092"), admin, [("orders", 0)], 1_000)


def test_the_offset_of_a_time_is_the_end_if_all_records_are_older() -> None:
    """The broker then finds no offset, which is -1."""
    assert _at(7) == {("orders", 0): 7}
    assert _at(-1) == {("orders", 0): 10}


def test_a_failed_lookup_of_a_time_is_an_error() -> None:
    """For example because the leader changes: a group that moved to the end instead would skip its records."""
    with pytest.raises(ClusterError, match="can't look up orders-0"):
        _at(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION))

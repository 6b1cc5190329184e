"""Tests how `klamm consume` prints a record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE

from klamm.cli.records.record_format import column_printer, json_printer


class _Message:
    """A record with a timestamp, as librdkafka gives it."""

    def __init__(self, kind: int, milliseconds: int) -> None:
        self._timestamp = (kind, milliseconds)

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return 7

    def key(self) -> bytes:
        return b"\xff"

    def value(self) -> None:
        return None

    def headers(self) -> None:
        return None


@pytest.mark.parametrize("milliseconds", [1_795_248_123_456_000, -(2**63), 2**63 - 1])
def test_a_timestamp_outside_of_the_calendar_is_a_number(milliseconds: int) -> None:
    """A producer that writes microseconds as milliseconds does not stop the command."""
    message: Any = _Message(TIMESTAMP_CREATE_TIME, milliseconds)
    assert json.loads(json_printer(message))["timestamp"] == str(milliseconds)
    assert column_printer("none")(message) == f"orders\t1\t7\t{milliseconds}\t\ufffd\tnone\n".encode()


def test_a_timestamp_is_local_time_with_its_offset() -> None:
    """A record without a timestamp has none."""
    message: Any = _Message(TIMESTAMP_CREATE_TIME, 1_795_248_123_456)
    assert ".456+" in json.loads(json_printer(message))["timestamp"].replace("456-", "456+")
    message = _Message(TIMESTAMP_NOT_AVAILABLE, -1)
    assert json.loads(json_printer(message))["timestamp"] is None

"""Tests the values of command line arguments."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import timedelta

import pytest

from klamm.cli.arguments import (
    delimiter,
    duration,
    key_value,
    listen_address,
    natural_number,
    partition_index,
    timestamp_ms,
    topic_partitions,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (key_value, "a=b", ("a", "b")),
        (key_value, "a=", ("a", "")),
        (key_value, "a=b=c", ("a", "b=c")),
        (natural_number, "12", 12),
        (topic_partitions, "orders", ("orders", ())),
        (topic_partitions, "orders:0,2", ("orders", (0, 2))),
        (partition_index, "2147483647", 2_147_483_647),
        (listen_address, "127.0.0.1:0", "127.0.0.1:0"),
        (listen_address, ":9092", ":9092"),
        (listen_address, "[::1]:9092", "[::1]:9092"),
        (delimiter, ":", b":"),
        (delimiter, r"\t", b"\t"),
        (delimiter, r"\\t", rb"\t"),
        (delimiter, "§", "§".encode()),
        (duration, "90s", timedelta(seconds=90)),
        (duration, "1.5h", timedelta(minutes=90)),
        (duration, "250ms", timedelta(milliseconds=250)),
        (duration, "7d", timedelta(days=7)),
        (duration, "P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        (timestamp_ms, "1970-01-01T00:00:01+00:00", 1_000),
        (timestamp_ms, "1970-01-01T01:00:00.5+01:00", 500),
    ],
)
def test_a_value_is_understood(parse: Callable[[str], object], text: str, value: object) -> None:
    """Each kind of value is parsed in all its forms."""
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (key_value, "a"),
        (key_value, "=b"),
        (natural_number, "0"),
        (natural_number, "-1"),
        (natural_number, "x"),
        (topic_partitions, ":1"),
        (topic_partitions, "orders:"),
        (topic_partitions, "orders:1,"),
        (topic_partitions, "orders:2147483648"),
        (partition_index, "-1"),
        (partition_index, "2147483648"),
        (listen_address, "9092"),
        (listen_address, "host:port"),
        (listen_address, "host:65536"),
        (listen_address, "::1:9092"),
        (delimiter, ""),
        (duration, "90"),
        (duration, "P"),
        (duration, "PT"),
        (duration, "99999999999d"),
        (timestamp_ms, "yesterday"),
        (timestamp_ms, "12:00"),
        (timestamp_ms, ""),
    ],
)
def test_what_makes_no_sense_is_refused(parse: Callable[[str], object], text: str) -> None:
    """An invalid value raises argparse's error, so that the exit status is the one for wrong usage."""
    with pytest.raises(ArgumentTypeError):
        parse(text)

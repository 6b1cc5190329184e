"""Tests the query of the example `examples/flights`: from a topic of flights to a topic of delays, read by a group."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from examples.flights import data, delays
from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)

DAY_MS = 24 * 60 * 60 * 1000
NOON_MS = 1_357_041_600_000  # of 2013-01-01


def test_the_delays_of_each_airport_and_day(
    spark: SparkSession, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """A group reads the delays of each airport and day once, as pandas computes them from the same flights."""
    pandas = pytest.importorskip("pandas")
    flights = pandas.DataFrame(
        [
            (NOON_MS + number % 4 * DAY_MS, "UA", number, "JFK", ("ATL", "LAX")[number % 2], delay)
            for number, delay in enumerate([5.0, -3.0, 10.0, None, 0.0, 7.0, 1.0, 2.0, 30.0, 4.0])
        ],
        columns=["timestamp_ms", "carrier", "flight", "origin", "dest", "arr_delay"],
    ).sort_values("timestamp_ms", kind="stable", ignore_index=True)
    # The times of the records, unlike those in the values, are of today, so that retention keeps the records.
    source, into = new_topic(), new_topic(partitions=3)
    events = data.encode_flights(flights)
    source.produce([event.value.decode() for event in [*events, data.closing_event(events[-1])]])
    query = delays.start_query(
        spark,
        source.bootstrap_servers,
        flights_topic=source.name,
        delays_topic=into.name,
        group=f"flights-{uuid.uuid4().hex[:8]}",
        directory=tmp_path,
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()

    group = f"report-{uuid.uuid4().hex[:8]}"
    found = delays.read_delays(into.bootstrap_servers, into.name, group, 3)
    rows = sorted(found.itertuples(index=False, name=None))
    assert rows == sorted(data.delays_by_airport_and_day(flights).itertuples(index=False, name=None))
    keys = {record.key for records in into.records() for record in records}
    assert keys == {b"ATL", b"LAX"}
    assert all(json.loads(record.value or b"")["airport"] for records in into.records() for record in records)

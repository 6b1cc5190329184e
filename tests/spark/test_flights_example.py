"""Tests the pipeline of the example `examples/flights`: from a topic of flights to a topic and to files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from examples.flights import comparison, data, driver, expected, outcome

from klamm import Broker
from klamm.testing.pipeline_harness import PipelineHarness

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import SparkSession

DAY_MS = 24 * 60 * 60 * 1000
NOON_MS = 1_357_041_600_000  # of 2013-01-01


@pytest.fixture
def flights() -> pandas.DataFrame:
    """Returns flights of four days, one of them cancelled, one to an airport that the table of airports lacks."""
    module = pytest.importorskip("pandas")
    rows = [
        (NOON_MS + number % 4 * DAY_MS, "UA", number, ("JFK", "EWR")[number % 3 % 2], ("ATL", "LAX")[number % 2], delay)
        for number, delay in enumerate([5.0, -3.0, 10.0, None, 0.0, 7.0, 1.0, 2.0, 30.0, 4.0])
    ]
    rows.append((NOON_MS, "B6", 11, "LGA", "SJU", 12.0))
    columns = ["timestamp_ms", "carrier", "flight", "origin", "dest", "arr_delay"]
    found: pandas.DataFrame = module.DataFrame(rows, columns=columns)
    return found.sort_values("timestamp_ms", kind="stable", ignore_index=True)


@pytest.fixture
def harness(spark: SparkSession, tmp_path: Path) -> Iterator[PipelineHarness]:
    """Returns the pipeline with a broker of its own."""
    with Broker() as broker:
        yield PipelineHarness(spark, driver.PIPELINE_FILE, broker.bootstrap_servers, tmp_path)


def test_topic_files_and_dead_letters(harness: PipelineHarness, flights: pandas.DataFrame, tmp_path: Path) -> None:
    """The pipeline writes what pandas computes from the same flights, and the damaged records as dead letters. The
    files are below the test's folder."""
    harness.produce("flights", [record.value for record in data.records_of(flights)])
    harness.run()

    delays = outcome.read_delays(harness.bootstrap_servers, "delays")
    assert comparison.compare("topic", "rows", delays, expected.expected_delays(flights))
    assert harness.files("arrivals").is_relative_to(tmp_path)
    arrivals = outcome.read_arrivals(harness.files("arrivals"))
    assert comparison.compare("files", "rows", arrivals, expected.expected_arrivals(flights))
    letters = outcome.read_dead_letters(harness.bootstrap_servers, "flights.delays.dead-letters")
    damaged = data.damaged_copies(data.encode_flights(flights))
    assert comparison.compare_dead_letters("dead letters", letters, damaged)
    assert {letter.reason for letter in letters} == {
        "the value is not JSON",
        "field arr_delay: 'late' is not int",
        "the check is not true: arr_delay IS NULL OR arr_delay < 3000",
    }
    assert harness.status("arrivals").figures.bad_records == 3

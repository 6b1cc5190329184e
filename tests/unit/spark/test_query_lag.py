"""Tests the lag of a query, computed from Spark's progress reports."""

from __future__ import annotations

from typing import Any

import pytest

import klamm.spark
from klamm.spark.query_lag import lag_of


def report(second: int, start: dict[str, int] | None, end: dict[str, int], latest: dict[str, int]) -> dict[str, Any]:
    """Returns the progress report of a micro-batch that lasts one second, as Spark writes it."""
    return {
        "timestamp": f"2026-01-31T12:{second // 60:02}:{second % 60:02}.000Z",
        "durationMs": {"triggerExecution": 1000},
        "sources": [
            {
                "description": "PythonMicroBatchStream",
                "startOffset": None if start is None else {"flights": start},
                "endOffset": {"flights": end},
                "latestOffset": {"flights": latest},
            }
        ],
    }


def test_what_each_partition_has_still_to_come() -> None:
    """The lag of a partition is the distance from the end of the last micro-batch to the end of the log."""
    found = lag_of("q", [report(0, {"0": 0, "1": 5}, {"0": 100, "1": 5}, {"0": 130, "1": 5})])

    assert [(each.partition, each.offset, each.latest, each.lag) for each in found] == [(0, 100, 130, 30), (1, 5, 5, 0)]
    assert found.total == 30
    assert [each.records_per_second for each in found] == [100.0, 0.0]


def test_rates_are_those_of_the_last_minute() -> None:
    """Rates cover the last minute, and idle time counts as part of that minute."""
    reports = [report(0, {"0": 0}, {"0": 5_000}, {"0": 5_000})]
    reports += [
        report(second, {"0": 5_000 + second}, {"0": 5_010 + second}, {"0": 6_000}) for second in (100, 110, 119)
    ]

    (partition,) = lag_of("q", reports)

    assert partition.records_per_second == (5_010 + 119 - 5_100) / 20


def test_a_query_that_waits() -> None:
    """An idle query, which reports the same offsets again and again, has no lag and a rate of zero."""
    reports = [report(second, {"0": 7}, {"0": 7}, {"0": 7}) for second in (0, 10, 20)]

    found = lag_of("q", reports)

    assert (found.total, found.records_per_second) == (0, 0.0)


def test_a_query_before_its_first_report() -> None:
    """A query without a progress report is shown as "no progress yet"."""
    assert str(lag_of("q", [])) == "q: no progress yet"


def test_the_first_report_has_no_start() -> None:
    """The rate is zero if the first report has no start offset, which Spark omits for a query without a checkpoint."""
    (partition,) = lag_of("q", [report(0, None, {"0": 10}, {"0": 10})])

    assert partition.records_per_second == 0.0


@pytest.mark.parametrize("offset", ["3", 3, None, {"a": 1}, '{"logOffset":1}'])
def test_sources_of_other_kinds_are_left_out(offset: Any) -> None:
    """Sources without Kafka offsets are left out; a rate source, for example, counts seconds, and a file source
    counts its log."""
    progress = report(0, {"0": 0}, {"0": 1}, {"0": 1})
    progress["sources"] = [{"startOffset": offset, "endOffset": offset, "latestOffset": offset}, *progress["sources"]]

    assert [each.topic for each in lag_of("q", [progress])] == ["flights"]


def test_as_text_and_as_html() -> None:
    """The text and HTML forms show the totals first and then one line for each partition; HTML escapes the query's
    name."""
    found = lag_of("<delays>", [report(0, {"0": 0}, {"0": 1000}, {"0": 3500})])

    assert str(found) == (
        "<delays> at 2026-01-31 12:00:00 UTC: lag 2,500, 1,000 records/s\n"
        "topic    partition  offset  latest    lag  records/s\n"
        "flights          0   1,000   3,500  2,500      1,000"
    )
    html = found._repr_html_()
    assert "&lt;delays&gt;" in html
    assert "<td>2,500</td>" in html


def test_the_function_is_what_the_package_hands_out() -> None:
    """`klamm.spark.lag` is the function on each access; a module of the same name would replace it after its first
    use."""
    assert klamm.spark.lag is klamm.spark.lag
    assert callable(klamm.spark.lag)

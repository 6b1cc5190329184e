"""Tests the figures that follow from Spark's progress reports."""

from __future__ import annotations

from typing import Any

from klamm.pipelines.status.query_reports import QueryReports, batch_report


def progress(
    second: int,
    batch: int,
    start: int,
    end: int,
    latest: int,
    *,
    bad: int = 0,
    late: int = 0,
    newest_ms: int | None = None,
) -> dict[str, Any]:
    return {
        "timestamp": f"1970-01-01T00:00:{second:02}.000Z",
        "batchId": batch,
        "numInputRows": end - start,
        "durationMs": {"addBatch": 80, "triggerExecution": 100},
        "sources": [
            {"startOffset": {"t": {"0": start}}, "endOffset": {"t": {"0": end}}, "latestOffset": {"t": {"0": latest}}}
        ],
        "sink": {"numOutputRows": end - start - bad},
        "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"},
        "stateOperators": [{"numRowsDroppedByWatermark": late}, {"numRowsDroppedByWatermark": 0}],
        "observedMetrics": {
            "klamm.flights": {"records": end - start, "bad": bad, "newest": newest_ms},
            "of the flow's own": {"bad": 100},
        },
    }


def test_a_micro_batch() -> None:
    """A report of a finished micro-batch has its records, rows, bad records and lag."""
    report = batch_report(progress(3, 7, 0, 10, 25, bad=2, late=1, newest_ms=1000))

    assert report is not None
    assert report.as_json() == {
        "batch_id": 7,
        "started": "1970-01-01T00:00:03.000Z",
        "duration_ms": 100,
        "records": 10,
        "rows": 8,
        "bad_records": 2,
        "lag_records": 15,
        "watermark": "1970-01-01T00:00:00.000Z",
        "late_rows": 1,
    }


def test_the_first_micro_batch_has_a_rate() -> None:
    """Spark reports no start offsets for the first micro-batch of a checkpoint. The rate counts its records, also when
    the query has nothing more to read."""
    first = progress(3, 0, 0, 50, 50)
    first["durationMs"]["triggerExecution"] = 10_000
    first["sources"][0]["startOffset"] = None
    reports = QueryReports()
    reports.add(first)
    assert reports.figures(now=14.0).records_per_second == 5.0

    idle = progress(22, 0, 50, 50, 50)
    del idle["durationMs"]["addBatch"]
    idle["durationMs"]["triggerExecution"] = 1_000
    reports.add(idle)
    assert reports.figures(now=23.0).records_per_second == 2.5


def test_an_idle_query_has_no_micro_batch() -> None:
    """A report without `addBatch` is of a query that waits for data."""
    idle = progress(3, 7, 10, 10, 10)
    del idle["durationMs"]["addBatch"]

    assert batch_report(idle) is None


def test_a_sink_that_counts_no_rows() -> None:
    """A sink that does not count its rows leaves their number open."""
    report = batch_report(progress(3, 7, 0, 10, 25) | {"sink": {"numOutputRows": -1}})

    assert report is not None
    assert report.rows is None


def test_the_figures_of_a_query_that_catches_up() -> None:
    """Rate, lag in records and in seconds, and the estimate of the end come from the reports of the last minute."""
    reports = QueryReports(bad_records=5)
    reports.add(progress(10, 0, 0, 100, 500, bad=1, late=2, newest_ms=2_000))
    reports.add(progress(20, 1, 100, 200, 500, late=3, newest_ms=4_000))

    figures = reports.figures(now=24.0)

    assert (figures.batch_id, figures.records, figures.bad_records, figures.late_rows) == (1, 200, 6, 5)
    assert (figures.lag_records, figures.lag_seconds) == (300, 20.0)
    assert figures.remaining_seconds == 30.0  # 100 fewer in 10 seconds
    assert figures.records_per_second is not None
    assert 19 < figures.records_per_second < 20  # 200 in the 10.1 seconds from the first trigger to the last one's end


def test_no_lag_is_no_delay() -> None:
    """A query that has read everything has no delay, however old the newest record is."""
    reports = QueryReports()
    assert reports.figures(now=1.0).lag_records is None

    reports.add(progress(10, 0, 0, 100, 100, newest_ms=2_000))

    figures = reports.figures(now=50.0)
    assert (figures.lag_records, figures.lag_seconds) == (0, 0.0)


def test_a_lag_that_grows_has_no_end() -> None:
    """There is no estimate while the lag does not shrink."""
    reports = QueryReports()
    reports.add(progress(10, 0, 0, 100, 200))
    reports.add(progress(20, 1, 100, 200, 400))

    assert reports.figures(now=21.0).remaining_seconds is None
    reports.restarted()
    assert reports.figures(now=21.0).records_per_second is None

"""What Spark reports of a query: its micro-batches, and the figures that follow from them."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from klamm.spark.query_lag import lag_of

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["BatchReport", "QueryFigures", "QueryReports", "batch_report", "new_progress"]

# As long as the window of the rate in `klamm.spark.lag`.
_WINDOW_S: Final = 60.0
_OBSERVED: Final = "klamm."


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One finished micro-batch."""

    batch_id: int
    started: str
    """ISO 8601, UTC."""
    duration_ms: int
    records: int
    """The number of records read."""
    rows: int | None
    """The number of rows written; None if the sink does not count them."""
    bad_records: int
    lag_records: int | None
    watermark: str | None
    late_rows: int = 0
    """The number of rows that operations with state dropped, because the watermark had passed them."""
    newest_ms: int | None = None
    """The timestamp of the newest record read."""

    def as_json(self) -> dict[str, Any]:
        """Returns the fields for a line of JSON."""
        fields = asdict(self)
        del fields["newest_ms"]
        return fields


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """A query's figures at one moment. None where they are not known."""

    batch_id: int | None = None
    records: int = 0
    """Records read by this run."""
    bad_records: int = 0
    """Bad records since the flow's first run."""
    late_rows: int = 0
    """Rows dropped in this run because the watermark had passed them."""
    records_per_second: float | None = None
    """Over the last minute."""
    lag_records: int | None = None
    lag_seconds: float | None = None
    """The age of the newest record that was read; 0 if there is nothing to read."""
    remaining_seconds: float | None = None
    """The time until the lag is 0, if it shrinks as in the last minute."""
    watermark: str | None = None
    last_batch_ms: int | None = None


class QueryReports:
    """The reports of one query over all of its restarts in this run."""

    def __init__(self, bad_records: int = 0) -> None:
        """Takes the number of bad records in earlier runs."""
        self._recent: deque[Mapping[str, Any]] = deque(maxlen=200)
        self._lags: deque[tuple[float, int]] = deque()
        self._last: BatchReport | None = None
        self._records = 0
        self._bad_records = bad_records
        self._late_rows = 0

    def restarted(self) -> None:
        """Forgets the rate: a new run of the query reports offsets from its own start."""
        self._recent.clear()
        self._lags.clear()

    def add(self, progress: Mapping[str, Any]) -> BatchReport | None:
        """Takes a progress report; returns the finished micro-batch, or None for a report of an idle query."""
        self._recent.append(progress)
        lag = _lag(progress)
        if lag is not None:
            at = _moment(progress["timestamp"])
            self._lags.append((at, lag))
            while at - self._lags[0][0] > _WINDOW_S:
                self._lags.popleft()
        report = batch_report(progress)
        if report is not None:
            self._last = report
            self._records += report.records
            self._bad_records += report.bad_records
            self._late_rows += report.late_rows
        return report

    def figures(self, now: float) -> QueryFigures:
        """Returns the figures; `now` is in seconds since the epoch."""
        lag = self._lags[-1][1] if self._lags else None
        last = self._last
        return QueryFigures(
            batch_id=None if last is None else last.batch_id,
            records=self._records,
            bad_records=self._bad_records,
            late_rows=self._late_rows,
            records_per_second=_rate(self._recent_minute(now)) if self._recent else None,
            lag_records=lag,
            lag_seconds=_lag_seconds(lag, last, now),
            remaining_seconds=self._remaining(),
            watermark=None if last is None else last.watermark,
            last_batch_ms=None if last is None else last.duration_ms,
        )

    def _recent_minute(self, now: float) -> Sequence[Mapping[str, Any]]:
        recent = [each for each in self._recent if now - _moment(each["timestamp"]) <= _WINDOW_S]
        return recent or [self._recent[-1]]

    def _remaining(self) -> float | None:
        if len(self._lags) < 2:
            return None
        (began, first), (ended, last) = self._lags[0], self._lags[-1]
        if last == 0:
            return 0.0
        if last >= first or ended <= began:
            return None
        return last / ((first - last) / (ended - began))


def new_progress(query: StreamingQuery, seen: str | None) -> list[dict[str, Any]]:
    """Returns the query's progress reports after the one that began at `seen`, oldest first.

    Spark keeps a hundred reports, so a caller that looks several times a second misses none.
    """
    reports = query._jsq.recentProgress()
    found: list[dict[str, Any]] = []
    for index in range(len(reports) - 1, -1, -1):
        progress = json.loads(reports[index].json())
        if progress["timestamp"] == seen:
            break
        found.append(progress)
    return found[::-1]


def batch_report(progress: Mapping[str, Any]) -> BatchReport | None:
    """Returns the micro-batch of a progress report; None if the query only waited for data."""
    if "addBatch" not in progress.get("durationMs", {}):
        return None
    observed = [values for name, values in progress.get("observedMetrics", {}).items() if name.startswith(_OBSERVED)]
    newest = [int(values["newest"]) for values in observed if values.get("newest") is not None]
    rows = progress.get("sink", {}).get("numOutputRows", -1)
    return BatchReport(
        batch_id=int(progress["batchId"]),
        started=str(progress["timestamp"]),
        duration_ms=int(progress["durationMs"].get("triggerExecution", 0)),
        records=int(progress.get("numInputRows", 0)),
        rows=None if rows < 0 else int(rows),
        bad_records=sum(int(values.get("bad") or 0) for values in observed),
        lag_records=_lag(progress),
        watermark=progress.get("eventTime", {}).get("watermark"),
        late_rows=sum(int(each.get("numRowsDroppedByWatermark", 0)) for each in progress.get("stateOperators", ())),
        newest_ms=max(newest, default=None),
    )


def _rate(recent: Sequence[Mapping[str, Any]]) -> float:
    """Returns the records per second from the first trigger to the end of the last one.

    Counts records: the first micro-batch of a checkpoint has no start offsets.
    """
    last = recent[-1]
    ended = _moment(last["timestamp"]) + last.get("durationMs", {}).get("triggerExecution", 0) / 1000
    seconds = ended - _moment(recent[0]["timestamp"])
    records = sum(report.records for each in recent if (report := batch_report(each)) is not None)
    return records / seconds if seconds > 0 else 0.0


def _lag(progress: Mapping[str, Any]) -> int | None:
    if not any(source.get("latestOffset") for source in progress.get("sources", ())):
        return None
    return lag_of("", [progress]).total


def _lag_seconds(lag: int | None, last: BatchReport | None, now: float) -> float | None:
    if lag == 0:
        return 0.0
    if lag is None or last is None or last.newest_ms is None:
        return None
    return max(0.0, now - last.newest_ms / 1000)


def _moment(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()

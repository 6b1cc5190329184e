"""The lag of a streaming query in each partition, from Spark's progress reports.

    print(klamm.spark.lag(query))

Sends no request to the cluster: `latestOffset` in a query's progress is the end of the log as of the last trigger.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["PartitionLag", "QueryLag", "lag", "lag_of"]

# Rates cover the last minute, so that one long micro-batch among short ones does not make them jump.
_WINDOW_S: Final = 60.0
_COLUMNS: Final = ("topic", "partition", "offset", "latest", "lag", "records/s")

_Offsets = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """A query's position and lag in one partition."""

    topic: str
    partition: int
    offset: int
    """The end of the last finished micro-batch."""
    latest: int
    """The end of the partition, as of that micro-batch's planning or the query's last check."""
    records_per_second: float
    """The query's progress in offsets per second, over the last minute; 0 if it waits for data."""

    @property
    def lag(self) -> int:
        """The number of offsets still to read."""
        return max(0, self.latest - self.offset)


@dataclass(frozen=True, slots=True)
class QueryLag:
    """A query's lag at one moment. It is shown as a table, in print and in notebooks."""

    name: str
    """The query's name, or its id if it has none."""
    at: datetime | None
    """The start of the last reported trigger; None before the first report."""
    partitions: tuple[PartitionLag, ...]

    @property
    def total(self) -> int:
        """The lag of all partitions together."""
        return sum(each.lag for each in self.partitions)

    @property
    def records_per_second(self) -> float:
        """The rate of all partitions together."""
        return sum(each.records_per_second for each in self.partitions)

    def __iter__(self) -> Iterator[PartitionLag]:
        return iter(self.partitions)

    def __str__(self) -> str:
        rows = [_COLUMNS, *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        lines = [
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        return "\n".join([self._title(), *lines]) if self.partitions else self._title()

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(column)}</th>" for column in _COLUMNS)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows())
        return f"<p>{escape(self._title())}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _title(self) -> str:
        if self.at is None:
            return f"{self.name}: no progress yet"
        moment = self.at.strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"{self.name} at {moment}: lag {self.total:,}, {self.records_per_second:,.0f} records/s"

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                each.topic,
                str(each.partition),
                f"{each.offset:,}",
                f"{each.latest:,}",
                f"{each.lag:,}",
                f"{each.records_per_second:,.0f}",
            )
            for each in self.partitions
        ]


def lag(query: StreamingQuery) -> QueryLag:
    """Returns the lag and the rate of each partition that the query reads, as of its last progress report.

    Spark reports each micro-batch, and about every ten seconds a query that waits for data. Works for `format("klamm")`
    and for Spark's own `format("kafka")`; ignores other sources.
    """
    return lag_of(query.name or str(query.id), [_as_mapping(progress) for progress in query.recentProgress])


def lag_of(name: str, progress: Sequence[Mapping[str, Any]]) -> QueryLag:
    """Computes the lag from a query's recent progress reports: parsed from Spark's JSON, oldest first."""
    if not progress:
        return QueryLag(name, None, ())
    last = progress[-1]
    until = _ended(last)
    window = [each for each in progress if until - _began(each).timestamp() <= _WINDOW_S] or [last]
    first = window[0]
    # Spark omits the start offset of a query without a checkpoint; the rate then begins at the first end offset.
    side, since = ("startOffset", _began(first).timestamp())
    if any(source["startOffset"] is None for source in first["sources"]):
        side, since = ("endOffset", _ended(first))
    seconds = until - since
    partitions = []
    for index, source in enumerate(last["sources"]):
        end = _offsets(source["endOffset"])
        latest = _offsets(source.get("latestOffset"))
        start = _offsets(first["sources"][index][side])
        partitions += [
            PartitionLag(
                topic,
                partition,
                offset,
                latest.get((topic, partition), offset),
                max(0, offset - start.get((topic, partition), offset)) / seconds if seconds > 0 else 0.0,
            )
            for (topic, partition), offset in sorted(end.items())
        ]
    return QueryLag(name, _began(last), tuple(partitions))


def _as_mapping(progress: Any) -> Mapping[str, Any]:
    """Converts a progress report, whose type depends on the version of PySpark."""
    parsed: Mapping[str, Any] = progress if isinstance(progress, Mapping) else json.loads(progress.json)
    return parsed


def _began(progress: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).astimezone(UTC)


def _ended(progress: Mapping[str, Any]) -> float:
    return float(_began(progress).timestamp() + progress["durationMs"].get("triggerExecution", 0) / 1000)


def _offsets(recorded: Any) -> _Offsets:
    """Parses offsets in the form of Spark's Kafka source; returns an empty dict for any other form."""
    parsed = _parsed(recorded)
    if not isinstance(parsed, dict):
        return {}
    return {
        (topic, int(partition)): offset
        for topic, partitions in parsed.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if partition.isdecimal() and isinstance(offset, int)
    }


def _parsed(recorded: Any) -> Any:
    if not isinstance(recorded, str):
        return recorded
    try:
        return json.loads(recorded)
    except ValueError:
        return None

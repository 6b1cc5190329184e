"""How far a streaming query is behind, partition by partition, from what Spark reports of its progress.

    print(klamm.spark.lag(query))

Nothing is asked of the cluster: `latestOffset` in a query's progress is the end of the log as of the last trigger.
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

# Rates are those of the last minute, so that one long micro-batch among short ones doesn't make them jump.
_WINDOW_S: Final = 60.0
_COLUMNS: Final = ("topic", "partition", "offset", "latest", "lag", "records/s")

_Offsets = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition, as a query stands in it."""

    topic: str
    partition: int
    offset: int
    """Where the last finished micro-batch ended."""
    latest: int
    """The end of the partition, when that micro-batch was planned or the query last looked."""
    records_per_second: float
    """Offsets that the query has moved on by in a second, over the last minute; 0 for one that waits for data."""

    @property
    def lag(self) -> int:
        """Offsets that are still to be read."""
        return max(0, self.latest - self.offset)


@dataclass(frozen=True, slots=True)
class QueryLag:
    """A query's lag at one moment. Prints as a table, and shows as one in a notebook."""

    name: str
    """The query's name, or its id if it has none."""
    at: datetime | None
    """When the trigger began that was reported last; None before the first report."""
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
    """The lag and the rate of each partition that the query reads, as of its last reported progress.

    Reports come with each micro-batch, and about every ten seconds from a query that waits for data. Works for
    `format("klamm")` and for Spark's own `format("kafka")`, and leaves out sources of other kinds.
    """
    return lag_of(query.name or str(query.id), [_as_mapping(progress) for progress in query.recentProgress])


def lag_of(name: str, progress: Sequence[Mapping[str, Any]]) -> QueryLag:
    """The lag in a query's recent progress, as Spark writes it in JSON, oldest first."""
    if not progress:
        return QueryLag(name, None, ())
    last = progress[-1]
    until = _ended(last)
    window = [each for each in progress if until - _began(each).timestamp() <= _WINDOW_S] or [last]
    first = window[0]
    # Spark leaves the start of a query without a checkpoint out: then its first end is where the rate begins.
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
    """A report of Spark's, in whichever form this version of PySpark hands it out."""
    parsed: Mapping[str, Any] = progress if isinstance(progress, Mapping) else json.loads(progress.json)
    return parsed


def _began(progress: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).astimezone(UTC)


def _ended(progress: Mapping[str, Any]) -> float:
    return float(_began(progress).timestamp() + progress["durationMs"].get("triggerExecution", 0) / 1000)


def _offsets(recorded: Any) -> _Offsets:
    """Offsets in the form of Spark's Kafka source; nothing for what has another form."""
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

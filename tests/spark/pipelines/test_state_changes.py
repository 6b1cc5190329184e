"""Tests what may change in the code of a flow with state while its checkpoint is kept: the tables of the how-to pages.

Spark decides it. If these tests fail with another PySpark, the pages change too.
"""

from __future__ import annotations

import json as standard_json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from tests.spark.pipelines.conftest import Runs
from tests.support.spark_topics import Topic

from klamm.pipelines import Pipeline, json, to_format, topic
from klamm.testing.shared_session import settings_of_run

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Function = Callable[["DataFrame"], "DataFrame"]

_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_OTHER_STORE: Final = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_SHUFFLE: Final = "spark.sql.shuffle.partitions"


def windows(
    *keys: str,
    length: str = "1 hour",
    delay: str = "10 minutes",
    only: str = "true",
    sums: str = "count(*)",
    after: str = "*",
) -> Function:
    def function(records: DataFrame) -> DataFrame:
        with_watermark = records.drop("_record").where(only).withWatermark("time", delay)
        counted = with_watermark.groupBy(*keys, F.window("time", length)).agg(*map(F.expr, sums.split(" and ")))
        return counted.selectExpr(*after.split(" and "))

    return function


def joined(condition: str, kind: str = "inner", hours: int = 1) -> Function:
    def function(records: DataFrame) -> DataFrame:
        sides = [records.drop("_record").withWatermark("time", "10 minutes").alias(each) for each in ("a", "b")]
        is_near: Column = F.expr(f"{condition} AND a.time BETWEEN b.time AND b.time + INTERVAL {hours} HOUR")
        return sides[0].join(sides[1], is_near, kind).select("a.key", "a.value")

    return function


def with_table(*rows: str, before: Function | None = None) -> Function:
    """Returns a join of the records with a table, or of what another function makes of them."""

    def function(records: DataFrame) -> DataFrame:
        table = records.sparkSession.createDataFrame([(key, "more") for key in rows], "key string, more string")
        return (before or stateless)(records).join(F.broadcast(table), "key", "left")

    return function


def once(records: DataFrame) -> DataFrame:
    return records.drop("_record").withWatermark("time", "1 minute").dropDuplicatesWithinWatermark(["key"])


def stateless(records: DataFrame) -> DataFrame:
    return records.drop("_record")


class Counts(StatefulProcessor):
    """Counts the rows of a key."""

    def __init__(self, schema: str = "n long", more: str | None = None, unit: int = 1) -> None:
        self.schema, self.more, self.unit = schema, more, unit

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", self.schema)
        if self.more is not None:
            handle.getValueState(self.more, "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        count = (self.count.get() or (0,))[0] + self.unit * len(list(rows))
        self.count.update((count,))
        yield Row(key=key[0], n=count)

    def close(self) -> None:
        """Does nothing."""


def counted(
    processor: StatefulProcessor, time_mode: str = "None", columns: str = "key string, n long", key: str = "key"
) -> Function:
    def function(records: DataFrame) -> DataFrame:
        return records.groupBy(*key.split()).transformWithState(processor, columns, "append", time_mode)

    return function


_POSSIBLE: Final[dict[str, tuple[Function, Function]]] = {
    "a filter": (windows("key"), windows("key", only="value IS NOT NULL")),
    "a column after a window": (windows("key"), windows("key", after="upper(key) AS name and `count(1)` AS n")),
    "a filter after a window": (windows("key"), lambda records: windows("key")(records).where("key = 'a'")),
    "the delay": (windows("key"), windows("key", delay="1 hour")),
    "the length of a window": (windows("key"), windows("key", length="2 hours")),
    "a join with a table": (stateless, with_table("a")),
    "a join with a table after a window": (windows("key"), with_table("a", before=windows("key"))),
    "a join with a table removed": (with_table("a"), stateless),
    "another table": (with_table("a"), with_table("a", "b")),
    "the kind of a join": (joined("a.key = b.key"), joined("a.key = b.key", "left")),
    "the times of a join": (joined("a.key = b.key"), joined("a.key = b.key", hours=2)),
    "a processor's columns": (counted(Counts()), counted(Counts(), columns="key string, n int")),
    "a processor's code": (counted(Counts()), counted(Counts(unit=2))),
    "a further variable": (counted(Counts()), counted(Counts(more="other"))),
}
_REFUSED: Final[dict[str, tuple[Function, Function]]] = {
    "grouping columns": (windows("key"), windows("key", "value")),
    "another aggregation": (windows("key"), windows("key", sums="max(value)")),
    "an aggregation without use": (windows("key"), windows("key", after="key and window.start")),
    "a further aggregation": (windows("key"), windows("key", sums="count(*) and max(value)")),
    "a window removed": (windows("key"), stateless),
    "a window added": (stateless, windows("key")),
    "another operation": (windows("key"), once),
    "a deduplication removed": (once, stateless),
    "a deduplication added": (stateless, once),
    "the keys of a join": (joined("a.key = b.key"), joined("a.key = b.key AND a.value = b.value")),
    "a variable's type": (counted(Counts()), counted(Counts("n int"))),
    "a field more": (counted(Counts()), counted(Counts("n long, m long"))),
    "the time mode": (counted(Counts()), counted(Counts(), "ProcessingTime")),
    "a processor's grouping columns": (counted(Counts()), counted(Counts(), key="key value")),
}
_REFUSED_AS_ORDER: Final[dict[str, tuple[Function, Function]]] = {
    "a join removed": (joined("a.key = b.key"), stateless),
    "a join added": (stateless, joined("a.key = b.key")),
}


@pytest.fixture(autouse=True)
def rocksdb(spark: SparkSession) -> Iterator[None]:
    """Sets RocksDB as the session's state store, which Counts needs."""
    spark.conf.set(_PROVIDER, _ROCKSDB)
    yield
    spark.conf.unset(_PROVIDER)


def record(time: str) -> str:
    return standard_json.dumps({"key": "a", "value": "1", "time": f"2026-01-01T{time}:00Z"})


def declared(name: str, records: Topic, function: Function) -> Pipeline:
    pipeline = Pipeline(name)
    source = topic(records.name, decode=json("key string, value string, time timestamp"))
    pipeline.flow(source=source, sink=to_format("noop"), bad_records="drop", name="flow")(function)
    return pipeline


def run_both(runs: Runs, name: str, records: Topic, before: Function, after: Function) -> tuple[bool, str, int]:
    """Runs a flow before and after a change; returns whether the second run succeeded, its message, and restarts."""
    records.produce([record("10:00")])
    assert runs.once(declared(name, records, before))
    records.produce([record("10:01")])
    run = runs.run(declared(name, records, after))
    has_succeeded = run.run()
    (flow,) = run.flows
    return has_succeeded, str(flow.message), flow.queries["flow"].restarts.total


@pytest.mark.parametrize("change", _POSSIBLE)
def test_what_may_change(runs: Runs, name: str, new_topic: Callable[..., Topic], change: str) -> None:
    """The flow goes on with its checkpoint."""
    assert run_both(runs, name, new_topic(), *_POSSIBLE[change]) == (True, "None", 0)


@pytest.mark.parametrize("change", _REFUSED)
def test_what_spark_refuses(runs: Runs, name: str, new_topic: Callable[..., Topic], change: str) -> None:
    """The flow stops without restarts, with a message that says what to do."""
    has_succeeded, message, restarts = run_both(runs, name, new_topic(), *_REFUSED[change])

    assert (has_succeeded, restarts) == (False, 0)
    assert message.startswith("flow flow stopped: [")
    assert "Restore these to go on; to begin again with an empty state" in message


@pytest.mark.parametrize("change", _REFUSED_AS_ORDER)
def test_a_join_added_or_removed(runs: Runs, name: str, new_topic: Callable[..., Topic], change: str) -> None:
    """A join of streams reads a source more often, which is refused before Spark sees it."""
    has_succeeded, message, restarts = run_both(runs, name, new_topic(), *_REFUSED_AS_ORDER[change])

    assert (has_succeeded, restarts) == (False, 0)
    assert "its function used its sources in the order records" in message


def test_the_watermark_never_goes_back(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A longer delay counts for later records, and does not move the watermark before them."""
    records = new_topic()

    assert run_both(runs, name, records, windows("key"), windows("key", delay="1 hour")) == (True, "None", 0)

    pipeline = declared(name, records, windows("key", delay="1 hour"))
    assert runs.status(pipeline, "flow").figures.watermark == "2026-01-01T09:50:00.000Z"
    records.produce([record("11:30")])
    assert runs.once(pipeline)
    assert runs.status(pipeline, "flow").figures.watermark == "2026-01-01T10:30:00.000Z"


@pytest.mark.parametrize("function", [windows("key"), counted(Counts())], ids=["a window", "a processor"])
def test_settings_that_the_checkpoint_keeps(
    runs: Runs, name: str, new_topic: Callable[..., Topic], function: Function
) -> None:
    """Another number of partitions of the state, and another state store, have no effect on a flow with a state."""
    records = new_topic()
    records.produce([record("10:00")])
    pipeline = declared(name, records, function)
    assert runs.once(pipeline)
    offsets = Path(runs.place(pipeline).checkpoint("flow"), "offsets")
    begun = settings_of(offsets)
    assert begun[_PROVIDER] == _ROCKSDB
    records.produce([record("10:01")])

    with settings_of_run(runs.spark, {_SHUFFLE: int(begun[_SHUFFLE]) + 1, _PROVIDER: _OTHER_STORE}):
        assert runs.once(pipeline)

    assert len(list(offsets.iterdir())) > 1
    assert settings_of(offsets) == begun
    assert not list(offsets.parent.rglob("*.delta")), "files of the other state store"


def settings_of(offsets: Path) -> dict[str, str]:
    """Returns the settings of the newest micro-batch in a checkpoint's offsets."""
    newest = max((file for file in offsets.iterdir() if file.name.isdecimal()), key=lambda file: int(file.name))
    conf: dict[str, str] = standard_json.loads(newest.read_text().splitlines()[1])["conf"]
    return {key: conf[key] for key in (_SHUFFLE, _PROVIDER)}

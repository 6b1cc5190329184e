"""Tests the pipelines in `examples`, each with a broker of its own."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from tests.support.lost_commits import lose_newest_commit

from klamm.testing import Broker
from klamm.testing.pipeline_harness import PipelineHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture
def example(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[str], PipelineHarness]]:
    """Returns a function that loads an example."""
    with Broker() as broker:
        yield lambda name: PipelineHarness(spark, _EXAMPLES / name, broker.bootstrap_servers, tmp_path)


def event(at: str, user: str, **more: object) -> dict[str, object]:
    return {"at": at, "user": user, **more}


def test_events_by_day(example: Callable[[str], PipelineHarness]) -> None:
    """Each event lies once in the folder of its day, with its place in the topic; others are dead letters."""
    pipeline = example("events_by_day.py")
    first = [event("2026-03-01T23:59:59Z", "ann", action="login", ms=12), event("2026-03-02T00:00:00Z", "bob")]
    pipeline.produce("events", [*first, "no JSON", event("1970-01-01T00:00:00Z", "ann"), {"user": "ann"}], key="k")
    pipeline.run()
    pipeline.produce("events", [event("2026-03-02T12:00:00Z", "ann")], key="k")
    pipeline.run()

    table = ds.dataset(pipeline.files("by_day"), partitioning="hive", exclude_invalid_files=True).to_table()
    rows = sorted((str(row["day"]), row["user"], row["ms"], row["kafka_offset"]) for row in table.to_pylist())
    assert rows == [("2026-03-01", "ann", 12, 0), ("2026-03-02", "ann", None, 5), ("2026-03-02", "bob", None, 1)]
    assert len(pipeline.dead_letters("by_day")) == 3


def test_current_values(
    example: Callable[[str], PipelineHarness], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has the last value of each key, deleted keys without a name; a repeated micro-batch changes nothing."""
    monkeypatch.chdir(tmp_path)
    pipeline = example("current_values.py")
    pipeline.produce("customers", [{"name": "Ann", "city": "Rome"}, {"name": "Ann", "city": "Oslo"}], key="1")
    pipeline.produce("customers", [{"name": "Bob"}], key="2")
    pipeline.run()
    pipeline.produce("customers", [None], key="2")
    pipeline.produce("customers", [{"name": "Cid", "city": "Bonn"}], key="3")
    pipeline.run()
    lose_newest_commit(tmp_path / "checkpoints" / "_" / "customers" / "current" / "checkpoint")
    pipeline.run()

    with closing(sqlite3.connect("customers-live.db")) as database:
        rows = database.execute("SELECT id, name, city FROM customers ORDER BY id").fetchall()
    assert rows == [("1", "Ann", "Oslo"), ("2", None, None), ("3", "Cid", "Bonn")]


def test_current_values_after_partitions_were_added(
    example: Callable[[str], PipelineHarness], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that moves to a new partition, where offsets begin at 0, gets its new values, also if a micro-batch has
    records of both partitions. A repeated micro-batch changes nothing."""
    monkeypatch.chdir(tmp_path)
    pipeline = example("current_values.py")
    ids = [str(number) for number in range(20)]
    for city in ("Rome", "Oslo"):
        for each in ids:
            pipeline.produce("customers", [{"name": "Ann", "city": city}], key=each)
    pipeline.run()
    admin = AdminClient({"bootstrap.servers": pipeline.bootstrap_servers})
    for each in ids:
        pipeline.produce("customers", [{"name": "Ann", "city": "Bonn"}], key=each)
    admin.create_partitions([NewPartitions("customers", 4)])["customers"].result()
    for each in ids:
        pipeline.produce("customers", [{"name": "Ann", "city": "Kyiv"}], key=each)
    pipeline.run()
    lose_newest_commit(tmp_path / "checkpoints" / "_" / "customers" / "current" / "checkpoint")
    pipeline.run()

    with closing(sqlite3.connect("customers-live.db")) as database:
        rows = database.execute("SELECT id, city, partition FROM customers").fetchall()
    assert {identifier: city for identifier, city, _ in rows} == dict.fromkeys(ids, "Kyiv")
    assert len({partition for _, _, partition in rows}) > 1


def test_counts_to_topic(example: Callable[[str], PipelineHarness], tmp_path: Path) -> None:
    """The topic has the count of each user and hour once, after the watermark has passed the hour, also if Spark loses
    the commit of the micro-batch that has written them and repeats it."""
    pipeline = example("counts_to_topic.py")
    early = [event("2026-03-01T10:00:00Z", "ann"), event("2026-03-01T10:59:00Z", "ann")]
    pipeline.produce("events", [*early, event("2026-03-01T10:30:00Z", "bob"), event("2026-03-01T11:05:00Z", "bob")])
    pipeline.run()
    assert pipeline.records("events-by-hour") == []
    pipeline.produce("events", [event("2026-03-01T10:45:00Z", "ann"), event("2026-03-01T11:10:00Z", "bob")])
    pipeline.run()
    assert len(pipeline.records("events-by-hour")) == 2
    lose_newest_commit(tmp_path / "checkpoints" / "_" / "activity" / "by_hour" / "checkpoint")
    pipeline.run()
    pipeline.produce("events", [event("2026-03-01T10:46:00Z", "ann")])  # too late
    pipeline.run()

    counts = {(record.key, json.dumps(record.json)) for record in pipeline.records("events-by-hour")}
    hour = dt.datetime(2026, 3, 1, 10, tzinfo=dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assert counts == {
        (b"ann", json.dumps({"hour": hour, "count": 3})),
        (b"bob", json.dumps({"hour": hour, "count": 1})),
    }
    assert len(pipeline.records("events-by-hour")) == 2

"""Tests backfills into topics and files: a range of a flow's topics as a batch, next to the live flow."""

from __future__ import annotations

import json as standard_json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.pipelines.conftest import Background, Runs
from tests.support.spark_topics import Topic

from klamm.cli.pipeline.pipeline_backfill import border
from klamm.pipelines import Pipeline, PipelineError, json, to_batches, to_files, to_topic, topic
from klamm.pipelines.run.backfill import topic_output
from klamm.pipelines.run.backfill.backfill_plan import plan_backfill
from klamm.pipelines.run.backfill.backfill_record import Arguments
from klamm.pipelines.run.backfill.backfill_target import parse_target
from klamm.pipelines.run.backfill.flow_backfill import BackfillOutcome, FlowBackfill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FLOW = "late"


def flight(dest: str, delay: int) -> str:
    return standard_json.dumps({"dest": dest, "delay": delay})


def late(flights: DataFrame) -> DataFrame:
    return flights.where("delay > 15")


def declared(name: str, flights: Topic, function: Callable[..., Any] = late, **more: Any) -> Pipeline:
    pipeline = Pipeline(name)
    source = topic(flights.name, decode=json("time timestamp, dest string, delay int"), max_records_per_batch=60)
    given = {"source": source, "sink": to_topic(f"{name}-out", key="dest"), **more}
    pipeline.flow(name=FLOW, **given)(function)
    return pipeline


def backfill(
    runs: Runs,
    pipeline: Pipeline,
    into: str,
    begin: str = "earliest",
    end: str | None = None,
    *,
    where: str | None = None,
    appends: bool = False,
    force: bool = False,
    report: Callable[[str], None] = lambda step: None,
) -> BackfillOutcome:
    place, flow = runs.place(pipeline), pipeline.flows[FLOW]
    borders = border("--from", begin), None if end is None else border("--to", end)
    arguments = Arguments(begin, end, into, where)
    plan = plan_backfill(place, pipeline, flow, parse_target(into), arguments, borders=borders, appends=appends)
    return FlowBackfill(runs.spark, place, flow, plan).run(report, force=force)


def records(topic: Topic) -> Counter[Any]:
    return Counter((record.key, record.value) for record in topic.records(1)[0])


def rows(runs: Runs, path: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in runs.spark.read.parquet(str(path)).collect())


def content(folder: Path) -> dict[str, bytes]:
    """Returns the files without those of the status, which a run that goes on replaces."""
    files = [path for path in folder.rglob("*") if "status" not in path.name and path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_backfill_next_to_the_live_flow(
    runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """While the live flow runs, a backfill of the same range gives the same records in a topic, and the same rows in
    files. Commits, checkpoints and dead letters of the live flow stay as they are; bad records are counted."""
    flights = new_topic(partitions=3)
    for partition in range(3):
        flights.produce([flight("JFK" if at % 3 else "LAX", at) for at in range(40)], partition)
    flights.produce(["no JSON"], 1)
    pipeline = declared(name, flights)
    live = Background(runs.run(pipeline, once=False))
    live.wait_for(lambda: sum(flights.committed(f"{name}.{FLOW}")) == 121)
    live.wait_for(lambda: sum(flights.committed(f"{name}.{FLOW}.dead-letters")) == 121)
    checkpoint = Path(runs.place(pipeline).flow_folder(FLOW))
    before = content(checkpoint)
    letters = runs.topic(f"{name}.{FLOW}.dead-letters").ends(1)

    into_topic = backfill(runs, pipeline, f"topic:{name}-again")
    into_files = backfill(runs, pipeline, f"parquet:{tmp_path / 'again'}")

    for outcome in (into_topic, into_files):
        assert (outcome.counts.records, outcome.counts.bad_records, outcome.counts.rows) == (121, 1, 72)
    again = records(runs.topic(f"{name}-again"))
    assert again == records(runs.topic(f"{name}-out"))
    assert again.total() == 72
    assert {(row[1], row[2]) for row in rows(runs, tmp_path / "again")} == {
        (key.decode(), standard_json.loads(value)["delay"]) for key, value in again
    }
    assert content(checkpoint) == before
    assert runs.topic(f"{name}.{FLOW}.dead-letters").ends(1) == letters
    assert sum(flights.committed(f"{name}.{FLOW}")) == 121
    live.run.request_stop()
    assert live.join() is True


def test_borders_and_repetitions(runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path) -> None:
    """A range is between two times or offsets, the end left out. A finished backfill is not repeated into the same
    place by accident: a topic with records needs the consent to append, a folder with files is refused."""
    flights = new_topic()
    flights.produce_records([{"value": flight("JFK", 100 + at), "timestamp": (at + 1) * 60_000} for at in range(10)])
    pipeline = declared(name, flights)
    out = f"topic:{name}-again"

    assert backfill(runs, pipeline, out, "1970-01-01T00:03:00+00:00", "1970-01-01T00:05:00+00:00").counts.rows == 2
    with pytest.raises(PipelineError, match="has records already"):
        backfill(runs, pipeline, out, "-3", "9")
    assert backfill(runs, pipeline, out, "-3", "9", appends=True).counts.rows == 2
    offsets = standard_json.dumps({flights.name: {"0": 4}})
    assert backfill(runs, pipeline, out, offsets, "5", appends=True, where="dest = 'JFK'").counts.rows == 1
    assert backfill(runs, pipeline, out, "5", "6", appends=True, where="dest = 'LAX'").counts.rows == 0
    delays = [standard_json.loads(value)["delay"] for _, value in records(runs.topic(f"{name}-again"))]
    assert sorted(delays) == [102, 103, 104, 107, 108]

    assert backfill(runs, pipeline, f"json:{tmp_path / 'again'}", "9").counts.rows == 1
    with pytest.raises(PipelineError, match="is not empty"):
        backfill(runs, pipeline, f"json:{tmp_path / 'again'}", "9")


def test_windows_are_complete(runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path) -> None:
    """The live flow holds back windows until the watermark has passed them; a backfill has all windows of its range,
    with late records, and an aggregation its final values only."""
    flights = new_topic()
    minutes = [0, 5, 61, 130, 2]
    times = [f"2026-01-31T{minute // 60:02}:{minute % 60:02}:00Z" for minute in minutes]
    flights.produce([standard_json.dumps({"time": time, "dest": "JFK", "delay": 1}) for time in times])

    def hourly(flights: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return flights.withWatermark("time", "10 minutes").groupBy(F.window("time", "1 hour")).count().select("count")

    pipeline = declared(name, flights, hourly, sink=to_topic(f"{name}-out"))
    assert runs.once(pipeline)
    assert backfill(runs, pipeline, f"parquet:{tmp_path / 'append'}").counts.rows == 3
    assert rows(runs, tmp_path / "append") == [(1,), (1,), (3,)]
    assert records(runs.topic(f"{name}-out")).total() < 3

    totals = declared(name, flights, lambda flights: flights.groupBy("dest").count(), output_mode="update")
    assert backfill(runs, totals, f"topic:{name}-totals").counts.rows == 1
    assert records(runs.topic(f"{name}-totals")) == Counter([(b"JFK", b'{"count":5}')])


def test_an_interrupted_backfill_goes_on(
    runs: Runs, name: str, new_topic: Callable[..., Topic], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backfill that ends while it computes, and again while it writes to a topic, continues with the same command: it
    reads the same range, although there are more records now, and each row is written once."""
    flights = new_topic()
    flights.produce([flight("JFK", 100 + at) for at in range(40)])
    monkeypatch.setattr(topic_output, "_ROWS_PER_FILE", 5)
    monkeypatch.setattr(topic_output, "_BATCH_BYTES", 1)
    pipeline = declared(name, flights)

    def broken(flights: DataFrame) -> DataFrame:
        return flights.selectExpr("dest", "IF(delay = 120, raise_error('out of order'), delay) AS delay")

    def interrupt(step: str) -> None:
        if step.startswith("writing, 1"):
            raise KeyboardInterrupt

    with pytest.raises(PipelineError, match=r"out of order.*The same command continues it"):
        backfill(runs, declared(name, flights, broken), f"topic:{name}-again")
    flights.produce([flight("LAX", 1_000)])
    with pytest.raises(KeyboardInterrupt):
        backfill(runs, pipeline, f"topic:{name}-again", report=interrupt)
    some = records(runs.topic(f"{name}-again")).total()
    assert 10 <= some < 40

    assert backfill(runs, pipeline, f"topic:{name}-again").counts.records == 40
    again = records(runs.topic(f"{name}-again"))
    assert again.total() == len(again) == 40
    folder = Path(runs.place(pipeline).flow_folder(f"{FLOW}.backfill"))
    assert [path.name for path in folder.glob("*/*")] == ["backfill.json"]


def test_a_continued_backfill_overwrites_only_its_own_files(
    runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backfill that was interrupted goes on where it was begun. In another working directory, its path would be
    another folder; and a folder to which another backfill has written since is not its own any more."""
    flights = new_topic()
    flights.produce([flight("JFK", 100 + at) for at in range(4)])

    def broken(flights: DataFrame) -> DataFrame:
        return flights.selectExpr("dest", "raise_error('out of order') AS delay")

    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    with pytest.raises(PipelineError, match="out of order"):
        backfill(runs, declared(name, flights, broken), "parquet:again")
    monkeypatch.chdir(there)
    pipeline = declared(name, flights)
    with pytest.raises(PipelineError, match=f"wrote to parquet in {here}/again, and --into means parquet in {there}"):
        backfill(runs, pipeline, "parquet:again")
    monkeypatch.chdir(here)
    assert backfill(runs, pipeline, f"parquet:{here / 'again'}").counts.rows == 4
    with pytest.raises(PipelineError, match=r"another one of flow late \(--from earliest --into parquet:/.*\) has"):
        backfill(runs, pipeline, "parquet:again")
    assert len(rows(runs, here / "again")) == 4


def test_what_is_refused(runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path) -> None:
    """A backfill does not write where a flow of the pipeline writes or reads, and says what it can't compute."""
    flights = new_topic()
    flights.produce([flight("JFK", 20), "no JSON"])
    pipeline = declared(name, flights)
    pipeline.flow(source=topic(flights.name), sink=to_files(str(tmp_path / "data" / "raw")), name="raw")(late)

    for into, reason in {
        f"topic:{flights.name}": "flow late reads the topic",
        f"topic:{name}-out": "flow late writes the topic",
        f"topic:{name}.late.dead-letters": "flow late writes the topic",
        f"parquet:{tmp_path / 'data' / 'raw'}": "flow raw writes files in",
        f"parquet:{tmp_path / 'data' / 'raw' / 'day=1'}": "choose a folder outside of it",
        f"parquet:{tmp_path / 'data'}": "choose a folder outside of it",
        "live": "live is for flows with to_files",
        "nowhere": "write topic:NAME",
    }.items():
        with pytest.raises(PipelineError, match=reason):
            backfill(runs, pipeline, into)
    out = f"parquet:{tmp_path / 'out'}"
    with pytest.raises(PipelineError, match=f"--from is after --to: in {flights.name}-0 they are the offsets 2 and 1"):
        backfill(runs, pipeline, out, "latest", "1")
    with pytest.raises(PipelineError, match="has no offset 7; its log is from 0 to 2"):
        backfill(runs, pipeline, out, standard_json.dumps({flights.name: {"0": 7}}))
    with pytest.raises(PipelineError, match=f"flow late does not read {flights.name}-1"):
        backfill(runs, pipeline, out, standard_json.dumps({flights.name: {"0": 0, "1": 0}}))
    with pytest.raises(PipelineError, match=f"--from has no offset for {flights.name}-0"):
        backfill(runs, pipeline, out, "{}")

    def once_each(flights: DataFrame) -> DataFrame:
        return flights.withWatermark("time", "1 minute").dropDuplicatesWithinWatermark(["dest"])

    with pytest.raises(PipelineError, match="uses dropDuplicatesWithinWatermark, which Spark has for streams only"):
        backfill(runs, declared(name, flights, once_each), out, "0", "1")
    with pytest.raises(PipelineError, match="UNRESOLVED_COLUMN"):
        backfill(runs, declared(name, flights, lambda flights: flights.select("speed")), out, "0", "2")
    failing = declared(name, flights, bad_records="fail", sink=to_batches(print))
    with pytest.raises(PipelineError, match=rf"a bad record: .*topic {flights.name}, partition 0, offset 1\)"):
        backfill(runs, failing, f"parquet:{tmp_path / 'other'}")

"""Tests flows and queries with state: the code of the pages on late data, joins and state, and changes of such code."""

from __future__ import annotations

import json as standard_json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.spark.pipelines.conftest import Runs
from tests.support.page_code import page_code, write_pipeline
from tests.support.spark_topics import Topic

from klamm.pipelines import Pipeline
from klamm.pipelines.declare.pipeline_file import load_pipeline

LATE_DATA = "how-to/late-data.md"


def values(topic: Topic) -> list[Any]:
    """Returns key and parsed value of each record of a topic with one partition, without spaces in keys."""
    records = topic.records(1)[0]
    return [((record.key or b"").decode(), standard_json.loads(record.value or b"null")) for record in records]


def of_page(file: Path, *blocks: str, only: str | None = None, max_records: int | None = None) -> Pipeline:
    """Loads the pipeline that the blocks of a page declare, with one of its flows or all, without dead letters unless
    a flow has a check: these cost time in the tests, and have their own."""
    pipeline = load_pipeline(str(write_pipeline(file, *blocks)))
    for name, flow in list(pipeline.flows.items()):
        if only is not None and name != only:
            del pipeline.flows[name]
            continue
        sources = {each: replace(source, max_records_per_batch=max_records) for each, source in flow.sources.items()}
        bad_records = flow.bad_records if flow.checks else "drop"
        pipeline.flows[name] = replace(flow, sources=sources, bad_records=bad_records)
    return pipeline


def run_query(*blocks: str) -> None:
    """Runs blocks of a page as one program until the query that they start has read everything."""
    program: dict[str, Any] = {"__name__": "a_page"}
    for block in blocks:
        exec(block, program)
    query = program["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def departure(time: str, delay: int) -> str:
    return standard_json.dumps({"airport": "JFK", "time": f"2026-01-01T{time}:00Z", "delay": delay})


def hour(begin: int, flights: int, delay: float) -> dict[str, Any]:
    return {"hour": f"2026-01-01T{begin}:00:00.000Z", "flights": flights, "delay": delay}


def test_windows_and_late_records(runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path) -> None:
    """A window is written once, after the watermark has passed it, also with records that came in between; in the mode
    update with each change. A later record is dropped and counted. State and watermark outlive a restart."""
    departures = new_topic()
    outputs = {each: f"{name}-{each}" for each in ("delays-by-hour", "delays-so-far", "departures-once")}
    first, _, once, _ = page_code(LATE_DATA, {"departures": departures.name, "airports": name, **outputs})
    pipeline = of_page(tmp_path / "airports.py", first, once, max_records=2)

    departures.produce([departure("10:05", 4), departure("10:30", 6), departure("11:10", 1), departure("11:10", 1)])
    assert runs.once(pipeline)
    assert values(runs.topic(outputs["delays-by-hour"])) == []
    departures.produce([departure("10:58", 8), departure("11:20", 3), departure("11:21", 3), departure("11:22", 3)])
    departures.produce([departure("10:59", 100), departure("11:30", 5)])
    assert runs.once(pipeline)

    assert values(runs.topic(outputs["delays-by-hour"])) == [("JFK", hour(10, 3, 6.0))]
    so_far = [
        (standard_json.loads(key)["hour"][11:13], value["flights"])
        for key, value in values(runs.topic(outputs["delays-so-far"]))
    ]
    assert sorted(so_far) == [("10", 2), ("10", 3), ("11", 2), ("11", 3), ("11", 5), ("11", 6)]
    assert len(values(runs.topic(outputs["departures-once"]))) == 9
    figures = runs.status(pipeline, "delays_by_hour").figures
    assert (figures.late_rows, figures.watermark) == (1, "2026-01-01T11:15:00.000Z")


def test_records_that_arrive_much_too_late(
    runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """A check on the time of the event and of the record sends late records to the dead letters. A plain query writes
    what the flow's function makes of the others."""
    departures = new_topic()
    outputs = {"delays-in-time": f"{name}-in-time"}
    blocks = page_code(LATE_DATA, {"departures": departures.name, "airports": name, **outputs})
    at_eleven = int(datetime(2026, 1, 1, 11, tzinfo=UTC).timestamp() * 1000)
    times = {"10:50": at_eleven, "10:51": at_eleven, "10:30": at_eleven, "11:20": at_eleven + 1_200_000}
    departures.produce_records([{"value": departure(time, 4), "timestamp": at} for time, at in times.items()])

    pipeline = of_page(tmp_path / "airports.py", blocks[0], blocks[1], only="delays_in_time")
    assert runs.once(pipeline)

    assert values(runs.topic(f"{name}-in-time")) == [("JFK", hour(10, 2, 4.0))]
    (letter,) = runs.topic(f"{name}.delays_in_time.dead-letters").records(1)[0]
    assert letter.value == departure("10:30", 4).encode()


def test_windows_in_a_plain_query(runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path) -> None:
    """The page's plain query writes the windows of the flow's function with `format("klamm")`."""
    departures, output = new_topic(), new_topic()
    names = {"departures": departures.name, "delays-by-hour": output.name, "airports": name}
    own = {**names, "localhost:9092": output.bootstrap_servers, "delays-by-hour/checkpoint": str(tmp_path / "c")}
    departures.produce([departure("10:05", 4), departure("10:30", 6), departure("11:15", 1)])

    blocks = page_code(LATE_DATA, own)
    run_query(blocks[0], blocks[-1])

    assert values(output) == [("JFK", hour(10, 2, 5.0))]

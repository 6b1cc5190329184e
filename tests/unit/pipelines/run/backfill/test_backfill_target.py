"""Tests what `--into` means, and which sink it becomes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from klamm.pipelines import Pipeline, PipelineError, to_files, to_format, to_topic, topic
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.sinks import ToFiles
from klamm.pipelines.run.backfill.backfill_target import LIVE, Target, parse_target, refuse_place_in_use, target_sink
from klamm.pipelines.run.place import Place


def flow(sink: Any) -> Flow:
    pipeline = Pipeline("flights")
    pipeline.flow(source=topic("in"), sink=sink, name="late", bad_records="drop")(lambda flights: flights)
    return pipeline.flows["late"]


def test_targets() -> None:
    """A target is a topic, a format with a path, or the live sink; a local path becomes absolute."""
    assert parse_target("topic:out") == Target("topic", "out")
    assert parse_target("parquet:/data/again") == Target("parquet", "/data/again")
    assert parse_target("json:again") == Target("json", f"{os.getcwd()}/again")
    assert parse_target("parquet:s3a://bucket/again") == Target("parquet", "s3a://bucket/again")
    assert parse_target("live") is LIVE
    assert [str(parse_target(text)) for text in ("topic:out", "orc:/a", "live")] == [
        "topic out",
        "orc in /a",
        "the live sink",
    ]


@pytest.mark.parametrize("text", ["", "out", "topic:", ":out", "s3a://bucket/again", "/data/again"])
def test_wrong_targets(text: str) -> None:
    """A path without a format, or a name alone, is refused with the forms that are possible."""
    with pytest.raises(PipelineError, match="write topic:NAME, a format with a path"):
        parse_target(text)


def test_the_sink_of_a_target() -> None:
    """The backfill keeps the flow's key and columns for a topic, and its partitions for files; the options only for the
    same format."""
    late = flow(to_topic("out", key="dest", semantics="at-least-once"))
    assert target_sink(late, Target("topic", "again")) == to_topic("again", key="dest", semantics="at-least-once")
    assert target_sink(late, Target("parquet", "/a")) == to_files("/a")
    files = flow(to_files("/data", format="json", partition_by="day", options={"compression": "gzip"}))
    assert target_sink(files, Target("json", "/a")) == ToFiles("/a", "json", ("day",), {"compression": "gzip"})
    assert target_sink(files, Target("parquet", "/a")) == ToFiles("/a", "parquet", ("day",), {})
    assert target_sink(files, Target("topic", "again")) == to_topic("again")
    assert target_sink(files, LIVE) == files.sink


@pytest.mark.parametrize(
    "source", [topic(pattern="flights.*"), topic(["flights", "flights-again"]), topic("flights, flights-again")]
)
def test_a_topic_that_the_flow_reads_is_refused(tmp_path: Path, source: Any) -> None:
    """The live flow would read what the backfill writes. Its topics are declared by a pattern, a list, or as Spark's
    own option takes them."""
    pipeline = Pipeline("flights")
    pipeline.flow(source=source, sink=to_topic("out"), name="late", bad_records="drop")(lambda flights: flights)
    place = Place.at("flights", bootstrap_servers="kafka:9092", checkpoints=str(tmp_path))
    late = pipeline.flows["late"]
    refuse_place_in_use(place, pipeline, late, Target("topic", "again"))
    with pytest.raises(PipelineError, match="flow late reads the topic flights-again"):
        refuse_place_in_use(place, pipeline, late, Target("topic", "flights-again"))


@pytest.mark.parametrize("sink", [to_topic("out"), to_files("/data"), to_format("delta", path="/data")])
def test_sinks_without_partitions_are_not_replaced(sink: Any) -> None:
    """Only files by partition can be replaced in the live sink."""
    with pytest.raises(PipelineError, match=r"flow late: live is for flows with to_files\(…, partition_by=…\)"):
        target_sink(flow(sink), LIVE)


def test_places_in_use_are_those_of_the_environment() -> None:
    """A topic or a folder is in use if a flow writes it in the environment of the command."""
    pipeline = Pipeline("flights")
    pipeline.flow(source=topic("in"), sink=to_topic("out"), name="late")(lambda flights: flights)
    pipeline.flow(source=topic("in"), sink=to_format("delta", path="/data/late"), name="table")(lambda flights: flights)
    place = Place.at("flights", bootstrap_servers="b:1", checkpoints="/c", environment="test")
    late = pipeline.flows["late"]
    for free in (Target("topic", "out"), Target("parquet", "/data/late"), Target("parquet", "/data/test/late2"), LIVE):
        refuse_place_in_use(place, pipeline, late, free)
    taken = [Target("topic", name) for name in ("in", "test.out", "test.flights.late.dead-letters")]
    for used in (*taken, Target("parquet", "/data/test/late"), Target("delta", "/data/test/late/day=1")):
        with pytest.raises(PipelineError, match=r"choose|can't write into it"):
            refuse_place_in_use(place, pipeline, late, used)

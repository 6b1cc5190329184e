"""Tests how flows are declared: the functions stay functions, and mistakes are refused at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame

from klamm.pipelines import (
    DeclarationError,
    Pipeline,
    dead_letters,
    to_batches,
    to_files,
    to_format,
    to_topic,
    topic,
)
from klamm.pipelines.declare.bad_records import DeadLetters


def one(flights: DataFrame) -> DataFrame:
    return flights


def two(orders: DataFrame, payments: DataFrame) -> DataFrame:
    return orders.join(payments)


def test_a_flow_stays_a_function() -> None:
    """The decorator returns the function itself, so a test can call it with a DataFrame made by hand."""
    pipeline = Pipeline("flights")

    assert pipeline.flow(source=topic("flights"), sink=to_topic("delays"))(one) is one
    flow = pipeline.flows["one"]
    assert (list(flow.sources), flow.bad_records, flow.output_mode) == (["flights"], DeadLetters(), "append")


def test_a_flow_with_several_sources() -> None:
    """Sources are passed by the names of the function's parameters, each with its own check."""
    pipeline = Pipeline("shop")
    sources = {"payments": topic("payments"), "orders": topic("orders")}

    pipeline.flow(sources=sources, sink=to_topic("paid"), check={"orders": "amount > 0"}, name="paid")(two)

    flow = pipeline.flows["paid"]
    assert list(flow.sources) == ["orders", "payments"]
    assert flow.checks == {"orders": "amount > 0"}
    assert flow.has_several_sources


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ("/data/flights", "/data/flights/"),
        ("/data/flights", "file:///data//flights"),
        ("data/flights", "./data/flights"),
        ("s3a://lake/flights", "s3a://lake//flights/"),
    ],
)
def test_two_flows_write_to_two_folders(first: str, again: str) -> None:
    """Spark's file sink tells micro-batches by their numbers alone: a second flow with the same folder is refused,
    however its path is written. Spark would skip the micro-batches of one of the flows."""
    pipeline = Pipeline("flights")
    pipeline.flow(source=topic("a"), sink=to_files(first), name="first")(one)
    pipeline.flow(source=topic("a"), sink=to_files("/data/others"), name="second")(one)

    with pytest.raises(DeclarationError, match=rf"flow third writes to {again}, as flow first does"):
        pipeline.flow(source=topic("a"), sink=to_files(again), name="third")(one)


def test_what_happens_to_bad_records() -> None:
    """Bad records are dead letters by default; a topic of its own, dropping and failing are possible."""
    pipeline = Pipeline("flights")
    for name, given in (("a", dead_letters("bad")), ("b", "drop"), ("c", "fail")):
        pipeline.flow(source=topic("flights"), sink=to_topic("delays"), bad_records=given, name=name)(one)

    assert [flow.bad_records for flow in pipeline.flows.values()] == [DeadLetters("bad"), "drop", "fail"]
    assert [flow.writes_dead_letters for flow in pipeline.flows.values()] == [True, False, False]


@pytest.mark.parametrize(
    ("function", "arguments", "text"),
    [
        (one, {}, "takes source=topic"),
        (one, {"source": topic("a"), "sources": {"flights": topic("a")}}, "takes source=topic"),
        (two, {"source": topic("a")}, "its function takes one DataFrame, and not orders, payments"),
        (two, {"sources": {"orders": topic("a")}}, "Both need the same names"),
        (one, {"source": "flights"}, r"made by topic\(…\)"),
        (one, {"source": topic("a"), "sink": "delays"}, "sink is made by to_topic"),
        (one, {"source": topic("a"), "bad_records": "ignore"}, "bad_records='ignore'"),
        (one, {"source": topic("a"), "output_mode": "upsert"}, "'append', 'update' or 'complete'"),
        (one, {"source": topic("a"), "sink": to_files("out"), "output_mode": "complete"}, "files are never changed"),
        (one, {"source": topic("a"), "check": 5}, "check is a SQL expression"),
        (one, {"source": topic("a"), "check": {"other": "true"}}, "check names 'other'"),
        (two, {"sources": {"orders": topic("a"), "payments": topic("b")}, "check": "true"}, "check is a dict"),
        (one, {"source": topic("a"), "every": 5}, "an interval such as '5 seconds'"),
        (one, {"source": topic("a"), "name": "a.b"}, "use letters, digits"),
        (
            lambda flights, /: flights,
            {"source": topic("a"), "name": "f"},
            "by the name of the parameter, which flights does not take",
        ),
        (
            lambda *frames: frames[0],
            {"source": topic("a"), "name": "f"},
            "by the name of the parameter, which frames does not take",
        ),
    ],
)
def test_what_is_refused(function: Callable[..., DataFrame], arguments: dict[str, Any], text: str) -> None:
    """A flow that can't work is refused when it is declared."""
    with pytest.raises(DeclarationError, match=text):
        Pipeline("p").flow(**{"sink": to_topic("out"), **arguments})(function)


def test_two_flows_need_two_names() -> None:
    """A second flow with the same name is refused: the two would share a group and a checkpoint."""
    pipeline = Pipeline("p")
    pipeline.flow(source=topic("a"), sink=to_topic("b"))(one)

    with pytest.raises(DeclarationError, match="two flows named one"):
        pipeline.flow(source=topic("a"), sink=to_topic("c"))(one)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"name": "prod.flights"}, "use letters, digits"),
        ({"name": "p", "max_restarts": -1}, "a number from 0 on"),
        ({"name": "p", "checkpoints": " "}, "it is a folder"),
        ({"name": "p", "conf": {"spark.ui.port": None}}, "pipeline p: conf: .* not 'spark.ui.port' with a NoneType"),
    ],
)
def test_a_pipeline_is_refused(arguments: dict[str, Any], text: str) -> None:
    """The name of a pipeline has no dot, because dots separate the parts of a group's id."""
    with pytest.raises(DeclarationError, match=text):
        Pipeline(**arguments)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: to_topic("a", semantics="once"), "'exactly-once' or 'at-least-once'"),
        (lambda: to_topic("a", key=["b"]), "key is the name of a column"),  # type: ignore[arg-type]
        (lambda: to_topic("a", options={"topic": "b"}), r"use to_topic\(name\)"),
        (lambda: to_files("out", options={"checkpointLocation": "c"}), "folder of checkpoints has it"),
        (lambda: to_format("klamm", path="x"), r"use to_topic\(…\)"),
        (lambda: to_format("KLAMM", path="x"), r"use to_topic\(…\)"),
        (lambda: to_format("delta", path=5), "path is a folder, a path or a URI, not 5"),  # type: ignore[arg-type]
        (lambda: to_topic(5), "takes a name or a list of names"),  # type: ignore[arg-type]
        (lambda: to_files("out", format=5), r"to_files\('out'\): format"),  # type: ignore[arg-type]
        (lambda: to_files("out", partition_by=5), r"to_files\('out'\): partition_by"),  # type: ignore[arg-type]
        (lambda: to_batches("not a function"), "takes a function"),  # type: ignore[arg-type]
        (lambda: dead_letters(" "), "takes the name of a topic"),
    ],
)
def test_a_sink_is_refused(make: Callable[[], object], text: str) -> None:
    """A wrong argument of a sink is refused with a sentence that says what is possible."""
    with pytest.raises(DeclarationError, match=text):
        make()

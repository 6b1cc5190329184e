"""Tests which changes of a declaration need a new checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from klamm.pipelines import DeclarationError, Pipeline, dead_letters, to_batches, to_files, to_format, to_topic, topic
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.run.bad_record_rule import bad_record_rule
from klamm.pipelines.run.flow_identity import (
    keep_identity,
    keep_order_of_sources,
    refuse_changes,
    refuse_other_order,
)
from klamm.pipelines.run.place import Place


def flow(**arguments: Any) -> Flow:
    pipeline = Pipeline("flights")
    given = {"source": topic(["a", "b"]), "sink": to_topic("out"), "name": "late"}
    pipeline.flow(**{**given, **arguments})(lambda flights: flights)
    return pipeline.flows["late"]


def place(folder: Path) -> Place:
    return Place.at("flights", bootstrap_servers="kafka:9092", checkpoints=str(folder))


def run(folder: Path, **arguments: Any) -> None:
    """Does with the identity what a start of the flow does; the first start leaves a checkpoint."""
    refuse_changes(place(folder), flow(**arguments))
    keep_identity(place(folder), flow(**arguments), bad_record_rule(flow(**arguments)))
    offsets = Path(place(folder).checkpoint("late"), "offsets")
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / "0").write_text("v1\n{}\n{}")


@pytest.mark.parametrize(
    "arguments",
    [
        {"source": topic(["b", "c"], start="latest", max_records_per_batch=5)},
        {"check": "true"},
        {"bad_records": "drop"},
        {"every": "1 minute"},
        {"sink": to_topic("out", key="dest")},
    ],
)
def test_what_may_change(tmp_path: Path, arguments: dict[str, Any]) -> None:
    """Topics may be added and removed; the check, the treatment of bad records, the interval and the columns of the
    record may change."""
    run(tmp_path)

    run(tmp_path, **arguments)
    run(tmp_path)


def test_the_options_of_a_format_are_not_stored(tmp_path: Path) -> None:
    """They may be passwords, which change; what says where the rows go is stored."""
    run(tmp_path, sink=to_format("snowflake", dbtable="flights", sfPassword="secret"))
    run(tmp_path, sink=to_format("snowflake", dbtable="flights", sfPassword="another"))
    with pytest.raises(DeclarationError, match="the sink was snowflake dbtable=flights, now snowflake dbtable=other"):
        run(tmp_path, sink=to_format("snowflake", dbtable="other", sfPassword="another"))
    (file,) = tmp_path.rglob("identity.json")
    assert "secret" not in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"source": topic("c")}, "flights read a, b and reads c"),
        ({"source": topic(pattern="a.*")}, "flights read a, b and reads topics of a pattern"),
        ({"sink": to_topic("other")}, "the sink was topic out, exactly-once, now topic other, exactly-once"),
        ({"sink": to_topic("out", semantics="at-least-once")}, "now topic out, at-least-once"),
        ({"sink": to_files("/data/out")}, "now parquet in /data/out"),
        ({"sink": to_batches(print)}, "now a function"),
        ({"output_mode": "update"}, "the output mode was append, now update"),
        ({"bad_records": dead_letters("bad")}, "the dead letters were topic flights.late.dead-letters, now topic bad"),
    ],
)
def test_what_needs_a_new_checkpoint(tmp_path: Path, arguments: dict[str, Any], text: str) -> None:
    """A flow that reads or writes something else is refused with what has changed, also after another refusal; without
    a checkpoint it is not."""
    run(tmp_path)

    for _ in range(2):
        with pytest.raises(DeclarationError, match=text):
            run(tmp_path, **arguments)

    run(tmp_path / "fresh", **arguments)


def test_another_order_of_the_sources(tmp_path: Path) -> None:
    """Spark's checkpoint has the sources by their places in the plan: another order is refused with both, and the same
    one goes on. An identity of an older version has no order, and counts as unchanged."""
    run(tmp_path)
    refuse_other_order(place(tmp_path), flow(), ["payments", "orders"])
    keep_order_of_sources(place(tmp_path), flow(), ["orders", "payments"])
    run(tmp_path)

    refuse_other_order(place(tmp_path), flow(), ["orders", "payments"])
    with pytest.raises(
        DeclarationError, match="in the order orders, payments, and uses them in the order payments, orders"
    ):
        refuse_other_order(place(tmp_path), flow(), ["payments", "orders"])

    shutil.rmtree(place(tmp_path).checkpoint("late"))
    refuse_other_order(place(tmp_path), flow(), ["payments", "orders"])


def test_dead_letters_that_were_off_for_a_while(tmp_path: Path) -> None:
    """Dead letters keep their checkpoint while they are off, and so their topic."""
    run(tmp_path)
    run(tmp_path, bad_records="drop")

    with pytest.raises(DeclarationError, match="the dead letters were"):
        run(tmp_path, bad_records=dead_letters("bad"))


def test_a_damaged_identity(tmp_path: Path) -> None:
    """A file that is damaged, as by a loss of power, is named with what to do; without the file the flow goes on."""
    run(tmp_path)
    file = Path(place(tmp_path).flow_folder("late"), "identity.json")
    file.write_bytes(b"")

    with pytest.raises(DeclarationError, match=r"late/identity.json is damaged: .*Delete this file"):
        run(tmp_path)

    file.unlink()
    run(tmp_path)

"""Tests the commands on a file as `klamm pipeline init` writes it, one after the other, in the shared session."""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.spark.pipelines.conftest import Runs, Shell
from tests.support.spark_topics import Topic

from klamm.cli.main import FAILED
from klamm.cli.pipeline.pipeline_check import CHECK_COLUMNS

_TWO_FLOWS = """
from klamm.pipelines import Pipeline, json, raw, to_topic, topic

pipeline = Pipeline("shop")
orders = topic("{orders}", decode=json("id string"), start="latest")
payments = topic("{payments}", decode=json("id string, paid double"))


@pipeline.flow(sources={{"orders": orders, "payments": payments}}, sink=to_topic("{orders}-ids", value="id"),
               bad_records="drop")
def ids(orders, payments):
    return orders.select("id").union(payments.select("id"))


pipeline.flow(source=topic("{orders}-missing", decode=raw()), sink=to_topic("{orders}"), bad_records="fail",
              name="other")(lambda records: records)
"""


def test_the_file_of_init_runs_as_it_is(klamm: Shell, runs: Runs, name: str) -> None:
    """The commands in the file that `init` writes succeed. A run writes the large ones to the topic that the file
    names, and others that its check refuses are dead letters, which both kinds of a replay find."""
    klamm("pipeline", "init", f"{name}.py")
    shown = [shlex.split(line)[1:] for line in Path(f"{name}.py").read_text().splitlines() if line[4:9] == "klamm"]
    assert [words[:2] for words in shown] == [["topic", "create"], ["pipeline", "check"], ["pipeline", "run"]]
    create, check, run = shown

    klamm(*create)
    records = [
        {"time": "2026-01-31T12:00:00Z", "name": "ann", "amount": 250.5},
        {"time": "2026-01-31T12:00:00Z", "name": "bob", "amount": 99},
        {"time": "2026-01-31T12:00:00Z", "name": "cid", "amount": -1},
    ]
    runs.topic(name).produce(map(json.dumps, records))
    assert "3 offsets to read" in klamm(*check)
    klamm(*run, "--once")

    (large,) = runs.topic(f"{name}-large").records(1)[0]
    assert (large.key, json.loads(large.value or b"")) == (
        b"ann",
        {"time": "2026-01-31T12:00:00.000Z", "amount": 250.5},
    )
    letters = runs.topic(f"{name}.large.dead-letters")
    assert [json.loads(letter.value or b"")["name"] for letter in letters.records(1)[0]] == ["cid"]

    replay = ("pipeline", "replay", f"{name}.py", "--dead-letters")
    assert klamm(*replay) == "flow large: 1 dead letter replayed, 1 of them still bad\n"
    # The dead letter of the run, and that of the replay.
    assert klamm(*replay, "--to-source") == "flow large: 2 dead letters written to where they came from\n"
    assert klamm(*replay, "--to-source") == "flow large: 0 dead letters written to where they came from\n"
    read = [json.loads(record.value or b"") for record in runs.topic(name).records(1)[0]]
    assert read == [*records, records[2], records[2]]


def test_a_check_as_rows(klamm: Shell, new_topic: Callable[..., Topic]) -> None:
    """JSON and TSV have a row for each source, with all columns; the status is 1 for a flow with a problem."""
    orders, payments = new_topic(partitions=2), new_topic()
    orders.produce(['{"id": "1"}'] * 2)
    payments.produce(['{"id": "1", "paid": 5}'] * 3)
    names = {"orders": orders.name, "payments": payments.name}
    Path("shop.py").write_text(_TWO_FLOWS.format(**names), encoding="utf-8")

    rows = json.loads(klamm("pipeline", "check", "shop.py", "-o", "json", status=FAILED))

    of_both: dict[str, Any] = {
        "flow": "ids",
        "columns_out": "value string",
        "sink": f"topic {orders.name}-ids, exactly-once",
        "bad_records": "dropped and counted",
        "problems": "",
        "warnings": f"the topic {orders.name}-ids does not exist; a run creates it",
    }
    assert rows[:2] == [
        {
            **of_both,
            "source": "orders",
            "topics": orders.name,
            "partitions": 2,
            "group": "shop.ids.orders",
            "starts_at": "latest",
            "to_read": 0,
            "decoder": "json",
            "columns_in": "id string",
        },
        {
            **of_both,
            "source": "payments",
            "topics": payments.name,
            "partitions": 1,
            "group": "shop.ids.payments",
            "starts_at": "earliest",
            "to_read": 3,
            "decoder": "json",
            "columns_in": "id string, paid double",
        },
    ]
    (other,) = rows[2:]
    assert (other["flow"], other["partitions"], other["to_read"]) == ("other", None, None)
    assert f"{orders.name}-missing" in other["problems"]
    tsv = klamm("pipeline", "check", "shop.py", "--flow", "ids", "-o", "tsv")
    table = list(csv.reader(io.StringIO(tsv), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert table == [[*CHECK_COLUMNS], *([str(row[column]) for column in CHECK_COLUMNS] for row in rows[:2])]

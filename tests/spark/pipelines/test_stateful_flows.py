"""Tests flows and queries with state: the code of the pages on late data, joins and state, and changes of such code."""

from __future__ import annotations

import json as standard_json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from tests.spark.pipelines.conftest import Background, Runs
from tests.support.page_code import page_code, write_pipeline
from tests.support.spark_topics import Topic

from klamm.pipelines import Pipeline, PipelineError
from klamm.pipelines.declare.bad_records import DeadLetters
from klamm.pipelines.declare.pipeline_file import load_pipeline
from klamm.pipelines.run.dead_letter_replay import replay_flow
from klamm.pipelines.run.flow_check import check_flow
from klamm.testing.pipeline_harness import PipelineHarness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
LATE_DATA, JOINS, STATE = "how-to/late-data.md", "how-to/joins.md", "how-to/keep-state.md"


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


def order(number: int, time: str, customer: str = "ada") -> str:
    return standard_json.dumps(
        {"id": str(number), "time": f"2026-01-01T{time}:00Z", "customer": customer, "amount": 5.0}
    )


def credit(customer: str, amount: int) -> str:
    return standard_json.dumps({"customer": customer, "credit": amount})


def payment(number: int, time: str) -> str:
    return standard_json.dumps({"order": str(number), "time": f"2026-01-01T{time}:00Z", "paid": 5.0})


def test_joins_with_tables(runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path) -> None:
    """A running flow has a table of files as it was when the flow started, and in the function of `to_batches` the
    present table. After a restart, both have the present one."""
    orders, credits = new_topic(), new_topic()
    names = {"shop": name, "shop.orders": orders.name, "credits": credits.name}
    names |= {"localhost:9092": orders.bootstrap_servers, "customers": str(tmp_path / "customers")}
    with_country, with_credit = f"{name}-with-country", tmp_path / "orders-with-credit"
    first, second, *_ = page_code(JOINS, names | {"orders-with-country": with_country})
    pipeline = of_page(tmp_path / "shop.py", first, second.replace('f"orders-with-credit', f'f"{with_credit}'))

    def seen() -> tuple[dict[str, str | None], dict[str, float | None]]:
        rows = ds.dataset(with_credit, partitioning="hive").to_table().to_pylist()
        countries = {key: value["country"] for key, value in values(runs.topic(with_country))}
        assert len(countries) == len(rows)
        return countries, {row["id"]: row["credit"] for row in rows}

    def has_read(count: int) -> bool:
        return all(orders.committed(f"{name}.{flow}", 1) == [count] for flow in pipeline.flows)

    (tmp_path / "customers").mkdir()
    (tmp_path / "customers" / "1.csv").write_text("ada,UK\n")
    credits.produce_records([{"key": "ada", "value": credit("ada", each)} for each in (1, 2)])
    orders.produce([order(1, "10:00"), order(2, "10:00", "nemo")])
    run = Background(runs.run(pipeline, once=False))
    run.wait_for(lambda: has_read(2))

    (tmp_path / "customers" / "2.csv").write_text("nemo,IN\n")
    credits.produce_records([{"key": "ada", "value": None}, {"key": "nemo", "value": credit("nemo", 9)}])
    orders.produce([order(3, "10:00"), order(4, "10:00", "nemo")])
    run.wait_for(lambda: has_read(4))
    run.run.request_stop()
    assert run.join()
    countries = {"1": "UK", "2": None, "3": "UK", "4": None}
    amounts = {"1": 2.0, "2": None, "3": None, "4": 9.0}
    assert seen() == (countries, amounts)

    orders.produce([order(5, "10:00", "nemo")])
    assert runs.once(pipeline)
    assert seen() == (countries | {"5": "IN"}, amounts | {"5": 9.0})


def test_a_join_of_two_topics(runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path) -> None:
    """An order is written with its payment, also over a restart, and without one when the watermark shows that none
    can come."""
    orders, payments = new_topic(), new_topic()
    names = {"shop": name, "shop.orders": orders.name, "shop.payments": payments.name, "paid-orders": f"{name}-paid"}
    blocks = page_code(JOINS, names)
    pipeline = of_page(tmp_path / "shop.py", blocks[0], blocks[2], only="paid_orders")

    orders.produce([order(1, "10:00"), order(2, "10:10"), order(3, "10:20")])
    payments.produce([payment(1, "10:30")])
    assert runs.once(pipeline)
    orders.produce([order(4, "13:00")])
    payments.produce([payment(2, "11:00"), payment(4, "13:00")])
    assert runs.once(pipeline)

    written = [(key, value["paid_at"]) for key, value in values(runs.topic(f"{name}-paid"))]
    assert (written[0][0], written[-1][0], len(written)) == ("1", "3", 4)
    assert dict(written) == {
        **{"1": "2026-01-01T10:30:00.000Z", "2": "2026-01-01T11:00:00.000Z", "4": "2026-01-01T13:00:00.000Z"},
        "3": None,
    }
    assert orders.committed(f"{name}.paid_orders.orders", 1) == [4]
    with pytest.raises(PipelineError, match="several sources"):
        replay_flow(runs.place(pipeline), replace(pipeline.flows["paid_orders"], bad_records=DeadLetters(None)))


def test_a_join_in_a_plain_query(name: str, new_topic: Callable[..., Topic], tmp_path: Path) -> None:
    """The page's plain query joins two topics."""
    orders, payments, output = new_topic(), new_topic(), new_topic()
    names = {"shop": name, "shop.orders": orders.name, "shop.payments": payments.name, "paid-orders": output.name}
    names |= {"localhost:9092": output.bootstrap_servers, "paid-orders/checkpoint": str(tmp_path / "checkpoint")}
    orders.produce([order(1, "10:00")])
    payments.produce([payment(1, "10:30")])

    blocks = page_code(JOINS, names)
    run_query(blocks[0], blocks[2], blocks[3])

    assert values(output) == [("1", {"amount": 5.0, "paid": 5.0, "paid_at": "2026-01-01T10:30:00.000Z"})]


def temperature(machine: str, time: str, degrees: float) -> str:
    return standard_json.dumps({"machine": machine, "time": f"2026-01-01T{time}Z", "temperature": degrees})


@pytest.fixture
def rocksdb(spark: SparkSession) -> Iterator[None]:
    """Sets RocksDB as the session's state store, as the page's plain query does for a new session."""
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.unset(PROVIDER)


def test_a_state_of_ones_own(runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path) -> None:
    """A processor keeps its state and its timers over a restart, and the rows it makes are in the topic once. The
    state store is that of the pipeline's `conf`, without a setting of the test, and the session is as it was then."""
    temperatures, output = new_topic(), f"{name}-alarms"
    names = {"temperatures": temperatures.name, "machines": name, "alarms": output}
    pipeline = of_page(tmp_path / "machines.py", page_code(STATE, names)[0])
    assert ROCKSDB not in runs.spark.conf.getAll.values()
    harness = PipelineHarness(runs.spark, pipeline, temperatures.bootstrap_servers, tmp_path)

    temperatures.produce([temperature("a", "10:00:00", 20), temperature("b", "10:00:00", 20)])
    harness.run()
    temperatures.produce([temperature("a", "10:02:00", 41), temperature("a", "10:01:50", 40)])
    harness.run()

    assert ROCKSDB not in runs.spark.conf.getAll.values()
    state = tmp_path / "checkpoints" / "_" / name / "alarms" / "checkpoint" / "state"
    kinds = {file.suffix for file in state.rglob("*.*")}
    assert ".zip" in kinds
    assert ".delta" not in kinds, "files of Spark's other state store"
    assert values(runs.topic(output)) == [
        ("a", {"time": "2026-01-01T10:01:50.000Z", "alarm": "hot", "rise": 20.0}),
        ("b", {"time": "2026-01-01T10:00:00.000Z", "alarm": "silent", "rise": None}),
    ]


def test_a_state_of_ones_own_in_a_plain_query(
    spark: SparkSession, rocksdb: None, name: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """The page's plain query runs the flow's function and its processor."""
    temperatures, output = new_topic(), new_topic()
    names = {"temperatures": temperatures.name, "machines": name, "alarms": output.name}
    names |= {"localhost:9092": output.bootstrap_servers, "alarms/checkpoint": str(tmp_path / "checkpoint")}
    temperatures.produce([temperature("a", "10:00:00", 20), temperature("a", "10:00:30", 40)])

    run_query(*page_code(STATE, names))

    assert values(output) == [("a", {"time": "2026-01-01T10:00:30.000Z", "alarm": "hot", "rise": 20.0})]


def test_a_state_of_ones_own_without_rocksdb(
    runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """Without RocksDB the check has a problem, and a run stops without restarts; both name the setting."""
    temperatures = new_topic()
    temperatures.produce([temperature("a", "10:00:00", 20)])
    names = {"temperatures": temperatures.name, "machines": name, "alarms": f"{name}-alarms"}
    pipeline = of_page(tmp_path / "machines.py", page_code(STATE, names)[0])

    (problem,) = check_flow(runs.spark, runs.place(pipeline), pipeline.flows["alarms"]).problems
    run = runs.run(pipeline)

    assert not run.run()
    (flow,) = run.flows
    assert problem in str(flow.message)
    assert f'conf={{"{PROVIDER}": "{ROCKSDB}"}}' in problem
    assert flow.queries["flow"].restarts.total == 0

"""Tests that a flow whose function uses its sources in another order does not get the offsets of the wrong one."""

from __future__ import annotations

import json as standard_json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.spark.pipelines.conftest import Runs
from tests.support.spark_topics import Topic

from klamm.pipelines import Pipeline, json, to_topic, topic
from klamm.pipelines.run.flow_check import check_flow
from klamm.pipelines.run.flow_frames import flow_result
from klamm.pipelines.run.pinned_decoders import pin_all
from klamm.pipelines.run.plan_sources import order_of_sources

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Union = Callable[["DataFrame", "DataFrame"], "DataFrame"]


def declared(name: str, orders: Topic, payments: Topic, union: Union) -> Pipeline:
    pipeline = Pipeline(name)

    @pipeline.flow(
        sources={each: topic(read.name, decode=json("id int")) for each, read in _named(orders, payments)},
        sink=to_topic(f"{name}-out"),
        bad_records="drop",
    )
    def both(orders: DataFrame, payments: DataFrame) -> DataFrame:
        return union(orders, payments)

    return pipeline


def _named(orders: Topic, payments: Topic) -> list[tuple[str, Topic]]:
    return [("orders", orders), ("payments", payments)]


def _topics(pipeline: Pipeline) -> list[tuple[str, str]]:
    return [(parameter, source.topics[0]) for parameter, source in pipeline.flows["both"].sources.items()]


def test_another_order_is_refused(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A union the other way round is refused by a run, at once, and by a check. The former order goes on."""
    orders, payments = new_topic(), new_topic()
    orders.produce(['{"id": 1}', '{"id": 2}'])
    payments.produce(['{"id": 3}'])
    former = declared(name, orders, payments, lambda one, other: one.unionByName(other))
    swapped = declared(name, orders, payments, lambda one, other: other.unionByName(one))
    assert runs.once(former)
    payments.produce(['{"id": 4}'])

    run = runs.run(swapped)
    assert not run.run()
    assert "in the order orders, payments, and uses them in the order payments, orders" in (run.flows[0].message or "")
    assert run.flows[0].status().figures.restarts == 0
    (problem,) = check_flow(runs.spark, runs.place(swapped), swapped.flows["both"]).problems
    assert "in the order payments, orders" in problem
    assert runs.once(former)

    values = [record.value or b"" for record in runs.topic(f"{name}-out").records(1)[0]]
    assert sorted(values) == [b'{"id":1}', b'{"id":2}', b'{"id":3}', b'{"id":4}']


@pytest.mark.parametrize(
    ("union", "order"),
    [
        (lambda one, other: one.union(one).union(other), ["orders", "orders", "payments"]),
        (lambda one, other: one.alias("a").join(one.alias("b"), "id").select("id"), ["orders", "orders"]),
        (lambda one, other: other.join(one, "id").select("id"), ["payments", "orders"]),
    ],
)
def test_a_source_that_is_used_twice(
    runs: Runs, name: str, new_topic: Callable[..., Topic], union: Union, order: list[str]
) -> None:
    """The order is that of Spark's checkpoint, which has a source as often as the function uses it."""
    pipeline = declared(name, new_topic(), new_topic(), union)
    flow, place = pipeline.flows["both"], runs.place(pipeline)

    result = flow_result(runs.spark, place, flow, dict.fromkeys(flow.sources), pin_all(runs.spark, place, flow))
    assert order_of_sources(result, place, flow) == order

    assert runs.once(pipeline)
    offsets = runs.folder / "checkpoints" / "_" / name / "both" / "checkpoint" / "offsets" / "0"
    topics = {declared_topic: parameter for parameter, declared_topic in _topics(pipeline)}
    read = [next(iter(standard_json.loads(line))) for line in offsets.read_text().splitlines()[2:]]
    assert [topics[each] for each in read] == order

"""Tests the records that rows become in a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.pipelines import to_topic
from klamm.pipelines.run.record_columns import record_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_names_of_columns_may_have_dots_and_backticks(spark: SparkSession) -> None:
    """The name of a column is taken as it is. JSON often has fields such as `service.name`, and no such column is
    mistaken for a field of a struct."""
    frame = spark.sql("SELECT 'k' AS `the.key`, named_struct('b', 1) AS a, 2 AS `a.b`, 3 AS `c``d`, '4' AS `e.f`")

    whole = record_columns(frame, to_topic("t", key="the.key"), "flow").collect()
    one = record_columns(frame, to_topic("t", key="a.b", value="e.f"), "flow").collect()

    assert [tuple(row) for row in whole] == [("k", '{"a":{"b":1},"a.b":2,"c`d":3,"e.f":"4"}')]
    assert [tuple(row) for row in one] == [("2", "4")]

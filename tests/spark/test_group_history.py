"""Tests that Spark reads the topic with the history of groups like any other topic."""

from __future__ import annotations

import json
import os
import uuid
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer
from tests.interop.history_reader import HistoryReader
from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.skipif(
    os.environ.get("KLAMM_SPARK_TEST_BROKER") == "apache-kafka", reason="Apache Kafka keeps no history of groups"
)
def test_the_history_of_a_group_is_read_by_spark(spark: SparkSession, bootstrap_servers: str, topic: Topic) -> None:
    """Spark reads the history of a group: the key is the group id, and SQL can query the JSON fields of the value."""
    group = f"group-{uuid.uuid4().hex[:12]}"
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "client.id": "one"})
    consumer.subscribe([topic.name])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.close()
    with HistoryReader(bootstrap_servers) as history:
        history.wait_for(group, lambda record: record["outcome"] == "empty")
    options = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": "__group_history"}
    rows = (
        spark.read.format("klamm")
        .options(**options)
        .load()
        .where(f"string(key) = '{group}'")
        .orderBy("offset")
        .selectExpr(
            "get_json_object(string(value), '$.outcome') as outcome",
            "get_json_object(string(value), '$.causes[0].code') as cause",
            "get_json_object(string(value), '$.members_after[0].partitions') as partitions",
        )
        .collect()
    )
    assert [(row.outcome, row.cause) for row in rows] == [("stable", "member_joined"), ("empty", "member_left")]
    assert json.loads(rows[0].partitions) == {topic.name: [0, 1, 2]}

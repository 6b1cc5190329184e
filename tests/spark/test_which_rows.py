"""Tests which rows the options select, in cases that the comparison with Spark's connector does not cover."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.spark_queries import Runs
from tests.support.spark_topics import Topic, create_topic

import klamm.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(300)

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
TIME = 1_700_000_000_000


@pytest.fixture
def runs(spark: SparkSession, topic: Topic, tmp_path: Path) -> Runs:
    return Runs(spark, topic, tmp_path / "checkpoint")


def numbers(*ranges: range) -> list[str]:
    return sorted(str(number) for one in ranges for number in one)


def test_filters_are_pushed_down_if_asked_for(spark: SparkSession, topic: Topic) -> None:
    """With `klamm.filterPushdown`, offsets that a filter excludes are not fetched, and are no loss if deleted."""
    topic.produce_records([{"value": str(index), "timestamp": TIME + index} for index in range(20)], 0)
    topic.produce(range(100, 110), 1)
    topic.delete_before(6)
    options = topic.options(startingOffsets=json.dumps({topic.name: {"0": 0, "1": 0, "2": 0}}))

    def values(condition: str, **more: str) -> list[str]:
        frame = spark.read.format("klamm").options(**(options | more)).load().where(condition)
        return sorted(row[0] for row in frame.selectExpr("string(value)").collect())

    pushed = {"klamm.filterPushdown": "true"}
    at_15 = f"timestamp_millis({TIME + 15})"
    assert values("partition = 0 AND offset >= 6 AND offset < 9", **pushed) == numbers(range(6, 9))
    assert values(f"partition = 0 AND timestamp >= {at_15}", **pushed) == numbers(range(15, 20))
    assert values(f"partition IN (0, 2) AND timestamp > {at_15} AND value != '17'", **pushed) == ["16", "18", "19"]
    assert values(f"topic = '{topic.name}' AND partition != 0", **pushed) == numbers(range(100, 110))
    assert values("topic = 'another'", **pushed) == []
    with pytest.raises(Exception, match="Could not read records"):
        values("partition = 0 AND offset >= 6")
    missing = {**pushed, "subscribe": f"{topic.name},{topic.name}-missing", "startingOffsets": "earliest"}
    assert values(f"topic = '{topic.name}' AND partition = 1", **missing) == numbers(range(100, 110))
    with pytest.raises(Exception, match=f"{topic.name}-missing: no such topic"):
        values("partition = 1", **missing)
    beyond = {**pushed, "startingOffsets": json.dumps({topic.name: {"0": 0, "1": 0, "2": 5}})}
    assert values("partition = 1", **beyond) == numbers(range(100, 110))
    with pytest.raises(Exception, match="offset was changed from 5 to 0"):
        values("partition > 0", **beyond)
    spark.conf.set(PUSHDOWN, "false")
    try:
        with pytest.raises(Exception, match=PUSHDOWN.replace(".", r"\.")):
            values("partition = 0", **pushed)
    finally:
        spark.conf.set(PUSHDOWN, "true")


def test_each_filter_has_a_load_of_its_own(spark: SparkSession, topic: Topic) -> None:
    """Two filters on two `load()` calls are independent.

    With a single `load()`, Spark 4.3 uses the offsets of the last filter for all frames that are derived from it.
    """
    for partition in range(3):
        topic.produce([partition], partition)

    def chosen(condition: str) -> DataFrame:
        options = topic.options() | {"klamm.filterPushdown": "true"}
        return spark.read.format("klamm").options(**options).load().where(condition).select("partition")

    both = chosen("partition = 0").union(chosen("partition = 2"))

    assert sorted(row.partition for row in both.collect()) == [0, 2]


def test_topics_that_come_to_fit_a_pattern_are_read(
    spark: SparkSession, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """A running query reads a new topic that matches its pattern from the start of the topic."""
    first, second = new_topic(), new_topic()
    third = f"{first.name}-later"
    runs = Runs(spark, first, tmp_path / "checkpoint")
    first.produce(range(5))
    second.produce(range(100, 105))
    with runs.running(subscribePattern=f"^{first.name}", startingOffsets="earliest") as (query, sink):
        query.processAllAvailable()
        assert sink.values == numbers(range(5))
        later = create_topic(first.admin, first.bootstrap_servers, third, 1, {})
        later.produce(range(5, 9))
        query.processAllAvailable()

    assert sink.values == numbers(range(9))


def test_a_topic_made_anew_under_a_query_is_found_by_its_id(topic: Topic, runs: Runs) -> None:
    """A running query fails if its topic was created again, even if the new log is longer than the old log.

    Without this check, the query would silently skip the first records. A restart detects the new topic as well, and
    with `failOnDataLoss=false` continues from its start.
    """
    topic.produce(range(10), 0)

    def made_anew(frame: DataFrame, batch_id: int) -> None:
        frame.count()
        if batch_id == 0:
            topic.delete()
            topic.make_again(3)
            topic.produce(range(20), 0)

    frame = runs.spark.readStream.format("klamm").options(**topic.options(startingOffsets="earliest")).load()
    query = frame.writeStream.foreachBatch(made_anew).option("checkpointLocation", str(runs.checkpoint)).start()

    try:
        with pytest.raises(
            Exception, match=f"The topic {topic.name} was deleted and created again while the query ran"
        ):
            query.awaitTermination(120)
    finally:
        query.stop()
    with pytest.raises(Exception, match=r"offset was changed from 10 to 0.*deleted and re-created"):
        runs.to_the_end()
    assert runs.to_the_end(failOnDataLoss="false").values == numbers(range(20))


def test_a_mistyped_topic_leaves_the_checkpoint_as_it_is(topic: Topic, runs: Runs) -> None:
    """A mistyped topic, alone or next to the right one, fails the query but does not change the checkpoint.

    With the right name the query continues.
    """
    topic.produce(range(10), 0)
    runs.to_the_end(startingOffsets="earliest")
    topic.produce(range(10, 20), 0)

    for names, complaint in (
        (f"{topic.name}-typo", f"{topic.name}-0.* are gone"),
        (f"{topic.name},{topic.name}-typo", f"{topic.name}-typo: no such topic"),
    ):
        with pytest.raises(Exception, match=complaint):
            runs.to_the_end(subscribe=names)

    assert runs.to_the_end().values == numbers(range(10, 20))


def test_a_micro_batch_waits_until_it_is_worth_it(topic: Topic, runs: Runs) -> None:
    """A micro-batch waits for `minOffsetsPerTrigger` records; with AvailableNow a query takes the existing records."""
    options = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 10, "maxOffsetsPerTrigger": 12}
    topic.produce(range(5), 0)
    with runs.running(**options) as (query, sink):
        query.processAllAvailable()
        assert sink.values == numbers(range(5))
        topic.produce(range(5, 9), 0)
        query.processAllAvailable()
        assert sink.values == numbers(range(5))
        topic.produce(range(9, 20), 0)
        query.processAllAvailable()
        assert list(sink.by_id.values()) == [numbers(range(5)), numbers(range(5, 17))]

    assert runs.to_the_end(**options).values == numbers(range(17, 20))


def test_a_delay_has_an_end(topic: Topic, runs: Runs) -> None:
    """`maxTriggerDelay` ends the wait for `minOffsetsPerTrigger` records, also without `maxOffsetsPerTrigger`."""
    topic.produce(range(5), 0)
    with runs.running(startingOffsets="earliest", minOffsetsPerTrigger=1000, maxTriggerDelay="1s") as (query, sink):
        query.processAllAvailable()
        topic.produce(range(5, 9), 0)
        while len(sink.by_id) < 2:
            assert query.isActive
            query.processAllAvailable()

    assert sink.values == numbers(range(9))


def test_available_now_takes_partitions_that_came_between_runs(topic: Topic, runs: Runs) -> None:
    """AvailableNow with a limit reads a partition that was added between two runs in several micro-batches."""
    topic.produce(range(10), 0)
    assert runs.to_the_end(startingOffsets="earliest", maxOffsetsPerTrigger=4).values == numbers(range(10))
    topic.grow(5)
    topic.produce(range(10, 20), 4)

    again = runs.to_the_end(startingOffsets="earliest", maxOffsetsPerTrigger=4)

    assert again.values == numbers(range(10, 20))
    assert max(map(len, again.by_id.values())) == 4


def test_a_query_of_another_session_has_a_start_of_its_own(topic: Topic, runs: Runs) -> None:
    """Two queries with the same options, in two sessions of one application, start independently of each other: each
    at the end of the log when it starts."""
    session = runs.spark.newSession()
    klamm.spark.register(session)
    other = Runs(session, topic, runs.checkpoint.with_name("of another session"))
    topic.produce(range(5), 0)
    with runs.running() as (first, seen_by_first):
        first.processAllAvailable()
        topic.produce(range(5, 10), 0)
        first.processAllAvailable()
        with other.running() as (second, seen_by_second):
            second.processAllAvailable()
            topic.produce(range(10, 15), 0)
            second.processAllAvailable()
            first.processAllAvailable()

    assert seen_by_first.values == numbers(range(5, 15))
    assert seen_by_second.values == numbers(range(10, 15))
    stored = (runs.checkpoint / "sources" / "0" / "0").read_bytes().splitlines()[-1]
    assert json.loads(stored) == {topic.name: {"0": 5, "1": 0, "2": 0}}

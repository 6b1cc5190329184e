"""Tests that `spark.readStream.format("klamm")` reads each record once, from the given start, across restarts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.spark_queries import Runs
from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def runs(spark: SparkSession, topic: Topic, tmp_path: Path) -> Runs:
    return Runs(spark, topic, tmp_path / "checkpoint")


def numbers(*ranges: range) -> list[str]:
    return sorted(str(number) for one in ranges for number in one)


def test_from_earliest_everything_is_read_once(topic: Topic, runs: Runs) -> None:
    """From `earliest`, a stream reads the existing records and the records that arrive later, each once."""
    topic.produce(range(100))

    with runs.running(startingOffsets="earliest") as (query, sink):
        query.processAllAvailable()
        assert sink.values == numbers(range(100))
        topic.produce(range(100, 150))
        query.processAllAvailable()

    assert sink.values == numbers(range(150))


def test_from_latest_only_what_comes_is_read(topic: Topic, runs: Runs) -> None:
    """From `latest`, the default of a stream, a stream reads only the records that arrive after its start."""
    topic.produce(range(100))

    with runs.running() as (query, sink):
        query.processAllAvailable()
        topic.produce(range(100, 150))
        query.processAllAvailable()

    assert sink.values == numbers(range(100, 150))


def test_a_crash_in_the_first_batch_from_latest_skips_nothing(topic: Topic, runs: Runs) -> None:
    """A crash in the first micro-batch from `latest` skips no records, because the start is in the checkpoint.

    klamm stores the start there itself, because Spark gives a Python source no access to the checkpoint.
    """
    topic.produce(range(100))
    with runs.running() as (query, _):
        query.processAllAvailable()
    runs.forget_last_commit()
    topic.produce(range(100, 150))

    assert runs.to_the_end().values == numbers(range(100, 150))


def test_records_that_age_out_after_a_crash_in_the_first_batch_are_missed(topic: Topic, runs: Runs) -> None:
    """Records that are deleted after a crash in the first micro-batch count as loss.

    The restart uses the original starting offsets, not the new earliest offsets.
    """
    topic.produce(range(10), 0)
    runs.to_the_end(startingOffsets="earliest")
    runs.forget_last_commit()
    topic.delete_before(5)

    with pytest.raises(Exception, match=r"Could not read records in range \[0, 10\)"):
        runs.to_the_end(startingOffsets="earliest")
    assert runs.to_the_end(startingOffsets="earliest", failOnDataLoss="false").values == numbers(range(5, 10))


def test_a_restart_in_the_first_batch_brings_the_same_records(topic: Topic, runs: Runs) -> None:
    """A restart in the first micro-batch reads the same records, even if partitions were added to the topic."""
    topic.produce(range(10), 0)
    starting = {topic.name: {"0": 4, "1": -2, "2": -2}}
    first = runs.to_the_end(startingOffsets=json.dumps(starting))
    runs.forget_last_commit()
    topic.grow(4)
    topic.produce(range(10, 12), 3)

    again = runs.to_the_end(startingOffsets=json.dumps(starting))

    assert again.by_id[0] == first.by_id[0] == numbers(range(4, 10))
    assert again.values == numbers(range(4, 12))


def test_from_given_offsets(topic: Topic, runs: Runs) -> None:
    """A stream starts at the given offset of each partition; -2 stands for earliest and -1 for latest."""
    for partition in range(3):
        topic.produce(range(partition * 10, partition * 10 + 10), partition)
    starting = {topic.name: {"0": 7, "1": -2, "2": -1}}

    with runs.running(startingOffsets=json.dumps(starting)) as (query, sink):
        query.processAllAvailable()
        topic.produce([100], 2)
        query.processAllAvailable()

    assert sink.values == numbers(range(7, 20), range(100, 101))


def test_a_limit_splits_what_is_there_into_batches(topic: Topic, runs: Runs) -> None:
    """`maxOffsetsPerTrigger` takes a share of each partition, and AvailableNow continues until all records are read."""
    topic.produce(range(60), 0)
    topic.produce(range(60, 90), 1)

    sink = runs.to_the_end(startingOffsets="earliest", maxOffsetsPerTrigger=30)

    assert sink.values == numbers(range(90))
    assert [len(values) for _, values in sorted(sink.by_id.items())] == [30, 30, 30]
    assert sum(int(value) < 60 for value in sink.by_id[0]) == 20


def test_available_now_stops_at_what_was_there(topic: Topic, runs: Runs) -> None:
    """A query with AvailableNow ends at the end of the existing records, and the next run continues there."""
    topic.produce(range(10))
    assert runs.to_the_end(startingOffsets="earliest").values == numbers(range(10))
    topic.produce(range(10, 20))

    assert runs.to_the_end(startingOffsets="earliest").values == numbers(range(10, 20))


def test_offsets_in_the_checkpoint_are_those_of_sparks_source(topic: Topic, runs: Runs) -> None:
    """The checkpoint has offsets in the format of Spark's source, sorted so that equal offsets have equal text."""
    topic.produce(range(5), 2)
    topic.produce(range(3), 0)

    runs.to_the_end(startingOffsets="earliest")

    assert list(json.loads(runs.last_offsets())[topic.name].items()) == [("0", 3), ("1", 0), ("2", 5)]


def test_a_batch_that_is_done_again_is_the_same_batch(topic: Topic, runs: Runs) -> None:
    """A micro-batch that is repeated after a crash before the commit log has the same records, despite new arrivals."""
    topic.produce(range(30))
    before = runs.to_the_end(startingOffsets="earliest", maxOffsetsPerTrigger=20)
    last = max(before.by_id)
    runs.forget_last_commit()
    topic.produce(range(30, 40))

    after = runs.to_the_end(startingOffsets="earliest", maxOffsetsPerTrigger=20)

    assert after.by_id[last] == before.by_id[last]
    assert after.values == sorted(before.by_id[last] + numbers(range(30, 40)))


def test_into_parquet_each_record_comes_once(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    """A parquet sink has each record once, across restarts and a micro-batch that was written but not committed."""
    output, checkpoint = tmp_path / "output", tmp_path / "checkpoint"
    runs = Runs(spark, topic, checkpoint)
    for run in range(4):
        topic.produce(range(run * 25, run * 25 + 25))
        frame = spark.readStream.format("klamm").options(
            **topic.options(startingOffsets="earliest", maxOffsetsPerTrigger=10)
        )
        writer = frame.load().selectExpr("int(string(value)) AS number").writeStream.format("parquet")
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(str(output))
        query.awaitTermination()
        if run == 2:
            runs.forget_last_commit()

    assert sorted(row.number for row in spark.read.parquet(str(output)).collect()) == list(range(100))


def test_new_partitions_are_picked_up(topic: Topic, runs: Runs) -> None:
    """A running query reads new partitions from their start, without a waiting time."""
    with runs.running(startingOffsets="earliest") as (query, sink):
        topic.produce(range(10))
        query.processAllAvailable()
        topic.grow(5)
        topic.produce(range(10, 20), 4)
        query.processAllAvailable()

    assert sink.values == numbers(range(20))


def test_progress_shows_the_end_of_the_log(topic: Topic, runs: Runs) -> None:
    """The progress of a query contains the latest offsets of the log, which show the lag."""
    topic.produce(range(30), 0)

    with runs.running(startingOffsets="earliest", maxOffsetsPerTrigger=10) as (query, _):
        query.processAllAvailable()
        first = query.recentProgress[0]

    source = json.loads(first.json)["sources"][0]
    assert source["latestOffset"][topic.name]["0"] == 30
    assert source["endOffset"][topic.name]["0"] == 10


def test_headers_come_if_asked_for(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    """With `includeHeaders`, a stream returns headers as an array of structs."""
    topic.produce_records([{"value": b"v", "headers": [("a", b"1")]}])
    seen: list[Any] = []

    frame = spark.readStream.format("klamm").options(**topic.options(startingOffsets="earliest", includeHeaders="true"))
    query = (
        frame.load()
        .writeStream.foreachBatch(lambda batch, _: seen.extend(batch.select("headers").collect()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    assert [[(header.key, bytes(header.value)) for header in row.headers] for row in seen] == [[("a", b"1")]]


def test_an_unknown_option_stops_the_query_before_it_starts(runs: Runs) -> None:
    """A stream refuses an unknown option, and an option that only batch reads support."""
    with pytest.raises(Exception, match="unknown option 'startingofset'"):
        runs.to_the_end(startingOfset="earliest")
    with pytest.raises(Exception, match="not valid in streaming queries"):
        runs.to_the_end(endingOffsets="latest")


def test_loss_fails_the_query_or_is_skipped(topic: Topic, runs: Runs) -> None:
    """If retention deletes unread records between two runs, the query fails; `failOnDataLoss=false` skips the loss."""
    topic.produce(range(10), 0)
    runs.to_the_end(startingOffsets="earliest")
    topic.produce(range(10, 20), 0)
    topic.delete_before(15)

    with pytest.raises(Exception, match=r"Could not read records in range \[10, 20\).*failOnDataLoss"):
        runs.to_the_end(startingOffsets="earliest")
    assert runs.to_the_end(startingOffsets="earliest", failOnDataLoss="false").values == numbers(range(15, 20))


def test_a_deleted_topic_fails_the_query(topic: Topic, runs: Runs) -> None:
    """A query fails if its topic was deleted, and the error names the partitions."""
    topic.produce(range(10), 0)
    runs.to_the_end(startingOffsets="earliest")
    topic.delete()

    with pytest.raises(Exception, match=f"{topic.name}-0.* are gone"):
        runs.to_the_end(startingOffsets="earliest")


def test_a_topic_made_anew_fails_the_query_or_is_read_on(
    topic: Topic, runs: Runs, new_topic: Callable[..., Topic]
) -> None:
    """A query fails if its topic was created again with a shorter log, or continues with `failOnDataLoss=false`."""
    topic.produce(range(10), 0)
    runs.to_the_end(startingOffsets="earliest")
    topic.delete()
    shutil.copytree(runs.checkpoint, runs.checkpoint.with_name("copy"))
    topic.make_again(3)
    topic.produce(range(3), 0)

    with pytest.raises(Exception, match="offset was changed from 10 to 3"):
        runs.to_the_end(startingOffsets="earliest")
    runs.to_the_end(startingOffsets="earliest", failOnDataLoss="false")
    topic.produce(range(3, 6), 0)
    assert runs.to_the_end(startingOffsets="earliest", failOnDataLoss="false").values == numbers(range(3, 6))

"""A query with `klamm.sink.semantics=exactly-once` whose checkpoint and marker contradict each other; its limits."""

from __future__ import annotations

import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.support.exactly_once_query import Query, committed
from tests.support.small_disk import fill, small_disk
from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def query(spark: SparkSession, topic: Topic, tmp_path: Path) -> Query:
    """A query that has written one micro-batch."""
    query = Query(spark, topic, tmp_path)
    query.add()
    query.run()
    return query


def delete_group(query: Query) -> None:
    """Deletes the group that has the marker, as a tool does."""
    query.topic.admin.delete_consumer_groups([query.group_id])[query.group_id].result(30)


def delete_offset(query: Query) -> None:
    """Deletes the commit that is the marker, and not the group's others (OffsetDelete)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in an old way
        import kafka
    other = TopicPartition(query.topic.name, 1, 5)
    consumer = Consumer({"bootstrap.servers": query.topic.bootstrap_servers, "group.id": query.group_id})
    consumer.commit(offsets=[other], asynchronous=False)
    with closing(kafka.KafkaAdminClient(bootstrap_servers=query.topic.bootstrap_servers)) as admin:
        admin.delete_group_offsets(query.group_id, [kafka.TopicPartition(query.topic.name, 0)])
    (kept,) = consumer.committed([other])
    assert kept.offset == 5
    consumer.close()


@pytest.mark.parametrize("delete", [delete_group, delete_offset])
def test_a_marker_that_was_deleted(query: Query, delete: Callable[[Query], None]) -> None:
    """The query stops until the user says whether the topic has the micro-batch: here it has not."""
    delete(query)
    query.add()
    with pytest.raises(Exception, match=r"MarkerMissing.*has no marker.*klamm\.sink\.first\.batch=[0-9a-f-]{36}/1"):
        query.run()
    query.run(klamm_sink_first_batch=query.first_batch(1))
    query.add()
    query.run(klamm_sink_first_batch=query.first_batch(1))

    assert committed(query.topic) == query.written(3)


def test_a_marker_that_was_deleted_after_the_micro_batch_landed(query: Query) -> None:
    """The user says that the topic has the micro-batch: it is dropped."""
    query.add()
    query.run()
    query.forget_commit(1)
    delete_group(query)
    query.add()
    with pytest.raises(Exception, match=r"MarkerMissing"):
        query.run()
    query.run(klamm_sink_first_batch=query.first_batch(2))

    assert committed(query.topic) == query.written(3)


def test_a_marker_that_another_program_overwrote(query: Query) -> None:
    """The query stops, and says what it found."""
    consumer = Consumer({"bootstrap.servers": query.topic.bootstrap_servers, "group.id": query.group_id})
    consumer.commit(offsets=[TopicPartition(query.topic.name, 0, 7)], asynchronous=False)
    consumer.close()
    query.add()
    with pytest.raises(Exception, match=r"MarkerDamaged.*offset 7"):
        query.run()

    assert committed(query.topic) == query.written(1)


@pytest.fixture
def copy(spark: SparkSession, query: Query, tmp_path: Path) -> Query:
    """A query with a copy of the checkpoint after the first micro-batch."""
    (tmp_path / "copy").mkdir()
    copy = Query(spark, query.topic, tmp_path / "copy")
    copy.input = query.input
    shutil.copytree(query.checkpoint, copy.checkpoint)
    return copy


def test_two_copies_of_a_checkpoint(query: Query, copy: Query) -> None:
    """The first one to write a micro-batch goes on; the other one stops there, also at its next start."""
    query.add()
    query.run()
    # The copy plans micro-batch 1 too: its file offsets/1 has another time.
    for _ in range(2):
        with pytest.raises(Exception, match="MarkerConflict"):
            copy.run()

    assert committed(query.topic) == query.written(2)


def test_a_checkpoint_that_is_two_micro_batches_older(query: Query, copy: Query) -> None:
    """The query with the older copy stops, and says which micro-batches the topics have. With the newest checkpoint the
    query goes on."""
    for _ in range(2):
        query.add()
        query.run()
    for _ in range(2):
        with pytest.raises(Exception, match=r"MarkerConflict.*micro-batch 1 .* the micro-batches up to 2 of this"):
            copy.run()
    assert committed(query.topic) == query.written(3)
    query.add()
    query.run()

    assert committed(query.topic) == query.written(4)


def test_a_micro_batch_that_went_to_another_sink(query: Query, new_topic: Callable[..., Topic]) -> None:
    """The query stops, because a micro-batch is missing in the topics. It goes on without it if the user says so."""
    other = new_topic(partitions=3)
    query.add()
    write_elsewhere(query, other)
    assert committed(other) == query.added[1]
    query.add()
    with pytest.raises(Exception, match=r"MarkerConflict.*micro-batch 2 .* newest micro-batch .* is 0, .*missing"):
        query.run()
    assert committed(query.topic) == query.written(1)
    delete_group(query)
    query.run(klamm_sink_first_batch=query.first_batch(2))

    assert committed(query.topic) == query.written(1) + query.added[2]


def test_a_copy_that_went_on_with_another_sink(query: Query, copy: Query, new_topic: Callable[..., Topic]) -> None:
    """A copy of the checkpoint that has written its own micro-batch 1 to another sink does not go on with 2 where the
    topics have the micro-batch 1 of the first checkpoint."""
    query.add()
    query.run()
    write_elsewhere(copy, new_topic())
    query.add()
    with pytest.raises(Exception, match=r"MarkerConflict.*is not the micro-batch 1 of the checkpoint"):
        copy.run()
    assert committed(query.topic) == query.written(2)
    query.run()

    assert committed(query.topic) == query.written(3)


def write_elsewhere(query: Query, other: Topic) -> None:
    """Lets the query write its next micro-batch to another topic, at least once."""
    lines = query.spark.readStream.format("text").load(str(query.input))
    writer = lines.writeStream.format("klamm").option("kafka.bootstrap.servers", other.bootstrap_servers)
    writer = writer.option("topic", other.name).option("checkpointLocation", str(query.checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def test_the_commit_log_is_deleted(query: Query) -> None:
    """Spark repeats the last micro-batch with another number of tasks: it is dropped."""
    query.add()
    query.run()
    query.forget_commit(1)
    query.add()
    query.run(tasks=5)

    assert committed(query.topic) == query.written(3)


def test_a_record_beyond_the_topics_limit(query: Query) -> None:
    """Nothing of the micro-batch is visible; the query goes on when the topic takes the record."""
    set_limit(query.topic, "1000")
    query.add()
    long = "rpad(value, if(value = '1-7', 2000, length(value)), 'x')"
    with pytest.raises(Exception, match=r"MESSAGE_TOO_LARGE|max\.message\.bytes"):
        query.run(value=long)
    assert committed(query.topic) == query.written(1)
    set_limit(query.topic, "100000")
    query.run(value=long)

    expected = query.written(2)
    del expected[b"1-7"]
    assert committed(query.topic) == expected + Counter([b"1-7".ljust(2000, b"x")])


def test_staging_that_is_full(query: Query) -> None:
    """The file system takes only the begin of a file: the query fails with the folder and the reason, leaves no file,
    and goes on when there is room."""
    query.add()
    query.points.limit_files(100)
    with pytest.raises(Exception, match=r"staging folder .*/checkpoint/klamm-sink: .*File too large"):
        query.run(klamm_sink_inline_bytes="0")
    assert query.staged() == []
    query.points.revive()
    query.run(klamm_sink_inline_bytes="0")

    assert committed(query.topic) == query.written(2)
    assert query.staged() == []


def test_staging_on_a_full_disk(query: Query, tmp_path: Path) -> None:
    """The query fails with the folder and the reason, leaves no file, and goes on when there is room."""
    with small_disk(tmp_path / "small", 64) as disk:
        staging = {"klamm_sink_inline_bytes": "0", "klamm_sink_staging": str(disk)}
        fill(disk / "other")
        query.add()
        with pytest.raises(Exception, match=r"staging folder .*/small.*: .*No space left on device"):
            query.run(**staging)
        assert [path for path in disk.rglob("*") if path.is_file()] == [disk / "other"]
        (disk / "other").unlink()
        query.run(**staging)

        assert committed(query.topic) == query.written(2)
        assert [path for path in disk.rglob("*") if path.is_file()] == []


def test_rows_of_another_type(query: Query) -> None:
    """Are refused before anything is written; columns that the sink does not know are ignored, as in Spark's sink."""
    query.add()
    with pytest.raises(Exception, match=r"value.*int"):
        query.run(value="length(value)")
    assert committed(query.topic) == query.written(1)
    query.run(other=["length(value) size"])

    assert committed(query.topic) == query.written(2)


def test_a_topic_that_was_deleted(query: Query) -> None:
    """The marker went with it: the query stops, and writes nothing into a new topic of this name."""
    query.topic.delete()
    query.topic.make_again(3)
    query.add()
    with pytest.raises(Exception, match=r"MarkerMissing"):
        query.run()

    assert committed(query.topic) == Counter()


def set_limit(topic: Topic, size_bytes: str) -> None:
    """Sets `max.message.bytes` of the topic."""
    entry = ConfigEntry("max.message.bytes", size_bytes, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=[entry])
    topic.admin.incremental_alter_configs([resource])[resource].result(30)

"""Tests checkpoints and staging folders in an object store, as docs/reference/spark-sink.md ("File systems") says.

The store is a server with the protocol of S3. Spark itself needs Hadoop's jars for a checkpoint there, so the files of
such a checkpoint are written by the tests.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.folder_checks import check_files, check_removals
from tests.support.object_store import SECRET, ObjectStore, object_store
from tests.support.spark_queries import Runs
from tests.support.spark_topics import Topic

from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.folders import folder_at
from klamm.spark.query_checkpoints import SourceCheckpoint
from klamm.spark.sink.checkpoint_files import read_batch
from klamm.spark.source.checkpoint.checkpoint_log import is_last_finished
from klamm.spark.source.checkpoint.initial_offsets import InitialOffsets
from klamm.spark.source.offsets import PartitionOffsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)

_PARTITION = TopicPartition("t", PartitionIndex(0))


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    """Runs an object store."""
    with object_store() as running:
        yield running


@pytest.fixture
def as_spark_names_it(store: ObjectStore, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Returns the URI of a checkpoint as Spark writes it: with Hadoop's scheme. The environment has the credentials."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3a://bucket/{request.node.name}/a checkpoint%20"


def copy(spark: SparkSession, source: Topic, into: Topic, checkpoint: Path, staging: str) -> None:
    """Copies the existing records exactly once, in micro-batches of at most 50. All tasks stage their records in
    files."""
    frame = spark.readStream.format("klamm").options(**source.options(startingOffsets="earliest"))
    writer = frame.option("maxOffsetsPerTrigger", "50").load().select("key", "value").writeStream.format("klamm")
    options = {
        "kafka.bootstrap.servers": into.bootstrap_servers,
        "topic": into.name,
        "checkpointLocation": str(checkpoint),
        "klamm.sink.semantics": "exactly-once",
        "klamm.sink.staging": staging,
        "klamm.sink.inline.bytes": "0",
    }
    writer.options(**options).trigger(availableNow=True).start().awaitTermination()


def numbers_in(topic: Topic) -> Counter[bytes | None]:
    """Returns the committed values in a topic, with the number of records for each."""
    return Counter(record.value for record in itertools.chain(*topic.records()))


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_query_stages_its_records_in_an_object_store(
    spark: SparkSession, new_topic: Callable[..., Topic], store: ObjectStore, tmp_path: Path, scheme: str
) -> None:
    """All records arrive exactly once, also if Spark repeats a micro-batch, and no file stays in the store."""
    source, into = new_topic(partitions=3), new_topic(partitions=3)
    staging = store.uri(f"staging/{scheme}", scheme)
    source.produce(range(120))
    copy(spark, source, into, tmp_path, staging)
    Runs(spark, source, tmp_path).forget_last_commit()
    source.produce(range(120, 200))

    copy(spark, source, into, tmp_path, staging)

    assert numbers_in(into) == Counter(str(number).encode() for number in range(200))
    assert [name for name in store.names() if name.startswith("staging/")] == []


def test_a_store_that_can_not_be_used_is_named_without_its_credentials(
    spark: SparkSession, new_topic: Callable[..., Topic], store: ObjectStore, tmp_path: Path
) -> None:
    """If the bucket does not exist, the query fails and names the staging folder, but not the secret in its URI."""
    source, into = new_topic(partitions=3), new_topic(partitions=3)
    source.produce(range(10))
    with pytest.raises(Exception, match="the staging folder s3://…@no-bucket/staging") as failed:
        copy(spark, source, into, tmp_path, store.uri("staging").replace("@bucket/", "@no-bucket/"))
    assert SECRET not in str(failed.value)
    assert numbers_in(into) == Counter()


def test_files_of_an_object_store(store: ObjectStore) -> None:
    """Files are written, replaced, read, listed and removed as those of a local folder."""
    check_files(folder_at(store.uri("files")))
    check_removals(folder_at(store.uri("removals")))


def test_the_start_of_a_query_is_kept(as_spark_names_it: str, caplog: pytest.LogCaptureFixture) -> None:
    """The source keeps the start of a query in a checkpoint whose URI has Hadoop's scheme `s3a`."""
    start: PartitionOffsets = {_PARTITION: Offset(5)}
    checkpoints = [SourceCheckpoint(as_spark_names_it, 0)]

    with caplog.at_level(logging.WARNING, "klamm.spark"):
        assert InitialOffsets(lambda: checkpoints).kept(lambda: start) == start
        assert InitialOffsets(lambda: checkpoints).kept(dict) == start
    assert caplog.text == ""


def test_finished_micro_batches_are_seen(store: ObjectStore, as_spark_names_it: str) -> None:
    """The source and the sink read the logs of a checkpoint whose URI has Hadoop's scheme `s3a`."""
    folder = folder_at(as_spark_names_it)
    folder.replace("metadata", b'{"id":"q"}')
    for batch, offset in enumerate((10, 20)):
        lines = ["v1", "{}", json.dumps({"t": {"0": offset}})]
        folder.replace(f"offsets/{batch}", "\n".join(lines).encode())
    folder.replace("commits/0", b"v1\n{}")

    ends = [{_PARTITION: Offset(offset)} for offset in (10, 20)]
    assert [is_last_finished(as_spark_names_it, end) for end in ends] == [True, False]
    assert read_batch(as_spark_names_it, 1, "run").query_id == "q"
    assert any("/a checkpoint%20/offsets/1" in name for name in store.names())

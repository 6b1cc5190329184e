"""Tests that queries go on over failovers of replicated topics.

Nothing is lost or read twice, and `failOnDataLoss` does not fire. This includes a new leader whose high watermark is
below the end of a planned micro-batch.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from tests.support.spark_topics import Topic, create_topic
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.errors import KafkaError as RequestError
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.testing import Cluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.timeout(400)

_PARTITIONS: Final = 6
_ROUNDS: Final = 2
_PER_MICRO_BATCH: Final = 2_000
_PATIENCE_S: Final = 120
_TRIES_S: Final = 4
"""Longer than Spark's three tries, a second apart, for an end that is before the query's position."""
_LATEST: Final = -1
_VERSION: Final = 7


def _create(cluster: Cluster, name: str, partitions: int) -> Topic:
    servers = cluster.bootstrap_servers
    return create_topic(
        AdminClient({"bootstrap.servers": servers}), servers, name, partitions, {}, replication_factor=3
    )


def _wait(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# -- leaders that move and die -----------------------------------------------------------------------------------------


class _Writer:
    """Writes ascending numbers to each partition of a topic with acks=all until it is stopped."""

    def __init__(self, topic: Topic) -> None:
        self.written = 0
        """The number of records in each partition; all of them are acknowledged after the stop."""
        self._topic = topic
        self._is_over = threading.Event()
        self._failures: list[KafkaError] = []
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Writes while the block is running, and waits until all records are acknowledged."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join(_PATIENCE_S)
        assert not self._thread.is_alive()
        assert not self._failures

    def _write(self) -> None:
        own = {"bootstrap.servers": self._topic.bootstrap_servers, "linger.ms": 5, "reconnect.backoff.max.ms": 200}
        producer = Producer({**own, "acks": "all", "enable.idempotence": True})
        while not self._is_over.wait(0.01):
            for index in range(_PARTITIONS):
                producer.produce(self._topic.name, str(self.written), partition=index, on_delivery=self._told)
            self.written += 1
            producer.poll(0)
        producer.flush(_PATIENCE_S)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(error)


def test_queries_read_each_record_once_while_leaders_move_and_die(spark: SparkSession, tmp_path: Path) -> None:
    """A query copies a topic exactly once, while a producer with acks=all writes, all leaders of both topics move again
    and again, and each broker is killed. The copies are all acknowledged records, once and in the order of each
    partition."""
    with Cluster(brokers=3, replication_factor=3, config={"min.insync.replicas": "2"}) as cluster:
        source, copies = (_create(cluster, name, _PARTITIONS) for name in ("flights", "copies"))
        writer = _Writer(source)
        query = _copy(spark, source, copies, tmp_path / "checkpoint")
        try:
            with writer.writing():
                for killed in cluster.brokers * _ROUNDS:
                    _move_leaders(cluster, source, copies)
                    _wait_for_a_batch(query)
                    cluster.kill(killed)
                    _wait_for_a_batch(query)
                    cluster.restart(killed)
            query.processAllAvailable()
        finally:
            query.stop()

        expected = [str(number).encode() for number in range(writer.written)]
        assert [[record.value for record in each] for each in copies.records(_PARTITIONS)] == [expected] * _PARTITIONS


def _copy(spark: SparkSession, source: Topic, into: Topic, checkpoint: Path) -> StreamingQuery:
    options = source.options(startingOffsets="earliest", maxOffsetsPerTrigger=_PER_MICRO_BATCH)
    frame = spark.readStream.format("klamm").options(**options).load().select("value", "partition")
    writer = frame.writeStream.format("klamm").option("checkpointLocation", str(checkpoint))
    writer = writer.option("kafka.bootstrap.servers", into.bootstrap_servers).option("topic", into.name)
    return writer.option("klamm.sink.semantics", "exactly-once").start()


def _move_leaders(cluster: Cluster, *topics: Topic) -> None:
    """Lets the next replica lead each partition, as soon as it is in sync."""
    for topic, index in itertools.product(topics, range(_PARTITIONS)):
        leader = cluster.leader_of(topic.name, index)
        assert leader is not None
        following = leader % len(cluster.brokers) + 1

        def has_moved(topic: Topic = topic, index: int = index, following: int = following) -> bool:
            try:
                cluster.move_leader(topic.name, index, following)
            except RequestError as error:
                if error.code is not ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE:
                    raise
                return False
            return True

        _wait(has_moved)


def _wait_for_a_batch(query: StreamingQuery) -> None:
    """Waits until a micro-batch with records is finished that began after the call."""
    before = _batches(query) + 1

    def is_finished() -> bool:
        failure = query.exception()
        assert failure is None, failure
        return _batches(query) > before

    _wait(is_finished)


def _batches(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return 0 if progress is None else int(progress["batchId"])


# -- a high watermark that is lower for a while ------------------------------------------------------------------------


class _Sink:
    """Keeps the values of all micro-batches. A micro-batch reads its records when it may; its end is planned then."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.is_planned = threading.Event()
        self.may_read = threading.Event()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.is_planned.set()
        assert self.may_read.wait(_PATIENCE_S)
        self.values += [row[0] for row in frame.selectExpr("int(string(value))").collect()]


def test_queries_wait_while_the_high_watermark_is_lower(spark: SparkSession, tmp_path: Path) -> None:
    """All brokers die, and one of them then leads alone. It has all records and an old high watermark, so it tells no
    end of the log (KIP-207). A micro-batch that was planned, a query between two micro-batches, and a query that starts
    again wait for another replica. Then they read each record once."""
    sink = _Sink()
    # The other replica, which can't be reached, stays in sync however long a busy machine takes for a block.
    config = {"min.insync.replicas": "2", "replica.lag.time.max.ms": "600000"}
    with Cluster(brokers=3, replication_factor=3, config=config) as cluster:
        topic = _create(cluster, "flights", 1)
        frame = spark.readStream.format("klamm").options(**topic.options(startingOffsets="earliest")).load()
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
        topic.produce(range(100))
        query = writer.start()
        try:
            assert sink.is_planned.wait(_PATIENCE_S)
            with _low_high_watermark(cluster, topic):
                sink.may_read.set()
                time.sleep(_TRIES_S)
                assert sink.values == []
            query.processAllAvailable()
            assert sink.values == list(range(100))

            with _low_high_watermark(cluster, topic):
                time.sleep(_TRIES_S)
            topic.produce(range(100, 150))
            query.processAllAvailable()
            query.stop()

            with _low_high_watermark(cluster, topic):
                query = writer.start()
                time.sleep(_TRIES_S)
            topic.produce(range(150, 200))
            query.processAllAvailable()
        finally:
            query.stop()
        assert sink.values == list(range(200))


@contextmanager
def _low_high_watermark(cluster: Cluster, topic: Topic) -> Iterator[None]:
    """Kills all brokers, and starts two of them before the block: one of the two leads, and does not reach the other
    one, which could confirm what is committed. They reach each other again after the block."""
    leader = cluster.leader_of(topic.name, 0)
    assert leader is not None
    _wait(lambda: _are_in_sync(topic))
    away, other = (broker for broker in cluster.brokers if broker != leader)
    for broker in (away, other, leader):
        cluster.kill(broker)
    cluster.cut(leader, other)
    for broker in (other, leader):
        cluster.restart(broker)
    _wait(lambda: ErrorCode.OFFSET_NOT_AVAILABLE in _answers_for_the_end(cluster, topic, leader, other))
    yield
    assert ErrorCode.OFFSET_NOT_AVAILABLE in _answers_for_the_end(cluster, topic, leader, other)
    cluster.heal()
    cluster.restart(away)


def _are_in_sync(topic: Topic) -> bool:
    (partition,) = topic.admin.list_topics(topic.name, timeout=30).topics[topic.name].partitions.values()
    return len(partition.isrs) == len(partition.replicas)


def _answers_for_the_end(cluster: Cluster, topic: Topic, *brokers: int) -> list[int]:
    """Returns the error codes with which these brokers tell the end of the log; one of them is the leader."""
    wanted = ListOffsetsTopic(name=topic.name, partitions=[ListOffsetsPartition(timestamp=_LATEST)])
    codes = []
    for broker in brokers:
        with Wire(cluster.address_of(broker)) as wire:
            answer = wire.call(ListOffsetsResponse, _VERSION, ListOffsetsRequest(replica_id=-1, topics=[wanted]))
        codes.append(answer.topics[0].partitions[0].error_code)
    return codes

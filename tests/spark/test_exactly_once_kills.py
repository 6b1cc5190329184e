"""Tests that a query with `klamm.sink.semantics=exactly-once` writes each row once if drivers die or answers are lost.

With KLAMM_EXACTLY_ONCE_MATRIX=1, as in `make faults`, the tests kill in the first and in a later micro-batch, with rows
in messages and in files.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from tests.interop.broker_process import BrokerProcess
from tests.support.dropping_proxy import DroppingProxy
from tests.support.exactly_once_query import Query, codecs, committed
from tests.support.kafka_broker import ApacheKafka
from tests.support.patience import Limit
from tests.support.spark_topics import Topic, create_topic
from tests.support.stopping_sink import ABORT_POINTS, HALF_STAGED, PLANNING_POINTS, POINTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(300)

IS_MATRIX = "KLAMM_EXACTLY_ONCE_MATRIX" in os.environ
ALWAYS_INLINE, NEVER_INLINE = "1048576", "0"
# The APIs whose answers are lost.
APIS = {"Produce": 0, "OffsetFetch": 9, "InitProducerId": 22, "EndTxn": 26, "TxnOffsetCommit": 28}
# Without the matrix, every second point uses files, and each point is in micro-batch 1, after a committed micro-batch.
KILLS = (
    [
        (point, batch_id, inline_bytes)
        for point, batch_id, inline_bytes in itertools.product(POINTS, (0, 1), (ALWAYS_INLINE, NEVER_INLINE))
        if (point, inline_bytes) != (HALF_STAGED, ALWAYS_INLINE)
    ]
    if IS_MATRIX
    else [(point, 1, (ALWAYS_INLINE, NEVER_INLINE)[index % 2]) for index, point in enumerate(POINTS)]
)
# The same with several topics and a codec. Without the matrix, the driver dies when a part of the record batches is in
# one topic, and when all of them and the marker are written.
CODECS = ("lz4", "zstd", "gzip", "snappy")
KILLS_WITH_TOPICS = (
    [(*kill, CODECS[index % len(CODECS)]) for index, kill in enumerate(KILLS)]
    if IS_MATRIX
    else [("first batch sent", 1, NEVER_INLINE, "zstd"), ("marker moved", 1, ALWAYS_INLINE, "lz4")]
)
# Where a micro-batch fails, and where the driver dies in the `abort` that follows. If a task has failed, `abort` reads
# the marker only once, and there may be no file of another task.
FAILED_COMMITS = ("commit begun", "initialized", "first batch sent", "marker moved", "committed", "cleaned")
ABORTS = (
    [
        *itertools.product(FAILED_COMMITS, ABORT_POINTS),
        *itertools.product(("task begun", HALF_STAGED, "task staged"), ("abort begun", "abort glanced", "abort ended")),
    ]
    if IS_MATRIX
    else [("marker moved", "abort marker read")]
)


@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: "-".join(map(str, kill)))
def test_a_driver_that_dies_at_any_point(
    spark: SparkSession, topic: Topic, tmp_path: Path, kill: tuple[str, int, str]
) -> None:
    """A driver that dies at any point leaves all rows of the micro-batch in the topic, or none.

    After the next start, with another number of tasks, the topic has each row once, and no staged file is left.
    """
    point, batch_id, inline_bytes = kill
    _die_and_repeat(Query(spark, topic, tmp_path, **{"klamm.sink.inline.bytes": inline_bytes}), point, batch_id)


@pytest.mark.parametrize("point", POINTS if IS_MATRIX else ["marker moved", "committed"])
def test_a_driver_that_dies_within_foreach_batch(spark: SparkSession, topic: Topic, tmp_path: Path, point: str) -> None:
    """The same holds for `klamm.spark.write_topic`."""
    query = Query(spark, topic, tmp_path, **({"klamm.sink.inline.bytes": NEVER_INLINE} if point == HALF_STAGED else {}))
    query.is_in_foreach_batch = True
    _die_and_repeat(query, point, 1)


@pytest.mark.parametrize("kill", KILLS_WITH_TOPICS, ids=lambda kill: "-".join(map(str, kill)))
def test_a_driver_that_dies_while_it_writes_several_topics(
    spark: SparkSession, new_topic: Callable[..., Topic], tmp_path: Path, kill: tuple[str, int, str, str]
) -> None:
    """The same holds if rows name their topics, and record batches are compressed: a micro-batch is in all topics, or
    in none."""
    point, batch_id, inline_bytes, codec = kill
    topic, *others = (new_topic(partitions=3) for _ in range(3))
    more = {"klamm.sink.inline.bytes": inline_bytes, "kafka.compression.type": codec}
    query = Query(spark, topic, tmp_path, others, **more)

    _die_and_repeat(query, point, batch_id)

    assert all(query.written_to_each(1))
    assert [codecs(each) for each in query.topics] == [{codec}] * 3


@pytest.mark.parametrize("failed", ABORTS, ids="-".join)
def test_a_driver_that_dies_within_abort(
    spark: SparkSession, topic: Topic, tmp_path: Path, failed: tuple[str, str]
) -> None:
    """A micro-batch fails, and the driver dies in the `abort` that follows. The topic has all rows of the micro-batch
    or none; after the next start, it has each row once, and no staged file is left."""
    point, point_of_abort = failed
    query = Query(spark, topic, tmp_path, **{"klamm.sink.inline.bytes": NEVER_INLINE})
    query.add()
    query.add()
    (query.points.raise_at if point.startswith("task") else query.points.raise_once_at)(point, 1)

    _die(query, point_of_abort, 1, has_landed=_has_landed(point))

    _repeat(query, 1)


@pytest.mark.parametrize("point", PLANNING_POINTS)
@pytest.mark.parametrize("batch_id", (1, 2) if IS_MATRIX else (1,))
def test_a_driver_that_dies_between_two_micro_batches(
    spark: SparkSession, topic: Topic, tmp_path: Path, point: str, batch_id: int
) -> None:
    """A driver dies when Spark's commit log has a micro-batch, before or after Spark plans the next one, of which
    nothing is staged. After the next start, the topic has each row once."""
    query = Query(spark, topic, tmp_path, **{"klamm.sink.inline.bytes": NEVER_INLINE})
    query.is_planned_at_points = True
    for _ in range(batch_id + 1):
        query.add()

    _die(query, point, batch_id, has_landed=False)

    log = [(query.checkpoint / name).exists() for name in (f"commits/{batch_id - 1}", f"offsets/{batch_id}")]
    assert log == [True, point == "planned"]
    assert not (query.checkpoint / "commits" / str(batch_id)).exists()
    assert query.staged() == []
    _repeat(query, batch_id)


@pytest.mark.parametrize("point", ["decided", "committed"])
def test_a_failed_write_is_repeated_within_foreach_batch(
    spark: SparkSession, topic: Topic, tmp_path: Path, point: str
) -> None:
    """The function of `foreachBatch` catches the error of a write, and repeats the write: each row comes once, also if
    the first attempt has landed."""
    query = Query(spark, topic, tmp_path)
    query.is_in_foreach_batch = query.repeats_failed_writes = True
    for _ in range(3):
        query.add()
    query.points.stop_once_at(point, 1)

    query.run()

    assert query.points.was_reached
    assert committed(topic) == query.written(3)


def _die_and_repeat(query: Query, point: str, batch_id: int) -> None:
    for _ in range(batch_id + 1):
        query.add()
    _die(query, point, batch_id, has_landed=_has_landed(point))
    _repeat(query, batch_id)


def _has_landed(point: str) -> bool:
    return POINTS.index(point) >= POINTS.index("committed")


def _die(query: Query, point: str, batch_id: int, *, has_landed: bool) -> None:
    query.points.stop_at(point, batch_id)
    with pytest.raises(Exception):  # noqa: B017, PT011 (Spark names a process that ended in several ways)
        query.run()
    assert query.points.has_stopped
    assert query.committed_in_each() == query.written_to_each(batch_id + has_landed)


def _repeat(query: Query, batch_id: int) -> None:
    query.points.revive()
    query.add()
    query.run(tasks=3)
    assert query.committed_in_each() == query.written_to_each(batch_id + 2)
    assert query.staged() == []


class Site:
    """A broker behind a proxy; the broker aborts transactions soon after their timeout."""

    def __init__(self, proxy: DroppingProxy, broker: BrokerProcess | ApacheKafka) -> None:
        self.proxy, self.broker = proxy, broker
        self.bootstrap_servers = f"127.0.0.1:{proxy.port}"

    def topic(self) -> Topic:
        """Creates a topic of three partitions."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        return create_topic(admin, self.bootstrap_servers, f"spark-{uuid.uuid4().hex[:12]}", 3, {})

    def kill_and_restart(self) -> None:
        """Kills the broker, and starts it again."""
        self.broker.kill()
        self.broker.restart() if isinstance(self.broker, ApacheKafka) else self.broker.start()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, is_apache_kafka: bool) -> Iterator[Site]:
    """Runs a broker behind a proxy."""
    with DroppingProxy() as proxy:
        config = {
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            "auto.create.topics.enable": "false",
        }
        if is_apache_kafka:
            kafka = ApacheKafka(config)
            proxy.target = lambda: kafka.bootstrap_servers
            with kafka:
                yield Site(proxy, kafka)
            return
        broker = BrokerProcess(tmp_path_factory.mktemp("broker"), config)
        proxy.target = lambda: broker.bootstrap_servers
        yield Site(proxy, broker)
        broker.stop()


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("loss", ["answer", "request"] if IS_MATRIX else ["answer"])
def test_a_lost_answer(spark: SparkSession, site: Site, tmp_path: Path, api: str, loss: str) -> None:
    """If a request or its answer is lost, the sink repeats the request within the commit, and the query continues."""
    query = Query(spark, site.topic(), tmp_path)
    query.add()
    query.run()
    query.add()
    site.proxy.lose(APIS[api], loss)  # type: ignore[arg-type]

    query.run()

    assert site.proxy.lost == 1
    assert committed(query.topic) == query.written(2)


def test_other_readers_go_on_after_the_transaction_timeout(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    """If a driver dies within a transaction and does not restart, later records of other producers become readable when
    its transaction timeout is over, and not only after a default timeout, which is a minute or more. Before, readers
    get only the partitions that the transaction has not written."""
    # The commit must reach the point, and the reader the ends, within this time, also on a busy machine.
    query = Query(spark, site.topic(), tmp_path, **{"kafka.transaction.timeout.ms": "20000"})
    query.add()
    query.points.stop_at("marker moved", 0)
    with pytest.raises(Exception):  # noqa: B017, PT011
        query.run()
    assert query.points.was_reached
    # Every partition gets some: a transaction of few rows need not have written all of them.
    for partition in range(3):
        query.topic.produce([f"other {partition} {number}" for number in range(30)], partition)

    # `committed` reads up to the last stable offset.
    assert len(committed(query.topic)) < 90, "no reader was held up"
    limit = Limit(40)
    while len(found := committed(query.topic)) < 90:
        assert not limit.is_over, f"{len(found)} of 90 records are readable"

    assert found == Counter(b"other %d %d" % each for each in itertools.product(range(3), range(30)))


@pytest.mark.parametrize(
    "point",
    ["initialized", "decided", "first batch sent", "all acknowledged", "marker moved"]
    if IS_MATRIX
    else ["first batch sent", "marker moved"],
)
def test_a_broker_that_is_killed_within_a_commit(spark: SparkSession, site: Site, tmp_path: Path, point: str) -> None:
    """The commit continues in the same transaction when the broker is there again, and the query does not notice."""
    query = Query(spark, site.topic(), tmp_path)
    query.add()
    query.run()
    query.add()
    query.points.pause_at(point, 1)
    running = query.start()
    query.points.wait_for_pause()
    site.kill_and_restart()
    query.points.revive()

    running.awaitTermination()

    assert committed(query.topic) == query.written(2)


@pytest.mark.parametrize("point", ["decided", "all acknowledged"])
def test_a_topic_that_is_deleted_within_a_commit(spark: SparkSession, site: Site, tmp_path: Path, point: str) -> None:
    """The query fails with the name of the topic and what the broker said. A topic that is made again stays empty,
    because the marker went with the topic."""
    query = Query(spark, site.topic(), tmp_path)
    query.add()
    query.run()
    query.add()
    query.points.pause_at(point, 1)
    # The run fails after these times. They also end requests that the broker answers late.
    running = query.start(
        kafka_max_block_ms="10000", kafka_delivery_timeout_ms="12000", kafka_request_timeout_ms="10000"
    )
    query.points.wait_for_pause()
    query.topic.delete()
    query.points.revive()
    said = r"does it exist" if point == "decided" else f"UNKNOWN_TOPIC_OR_PARTITION for {query.topic.name}-0"
    with pytest.raises(Exception, match=said):
        running.awaitTermination()
    query.topic.make_again(3)
    with pytest.raises(Exception, match="MarkerMissing"):
        query.run()

    assert committed(query.topic) == query.written(0)


def test_a_broker_that_is_killed_between_two_micro_batches(spark: SparkSession, site: Site, tmp_path: Path) -> None:
    """The marker survives a broker crash like the records: the restarted query writes each row once."""
    query = Query(spark, site.topic(), tmp_path)
    query.add()
    query.points.stop_at("committed", 0)
    with pytest.raises(Exception):  # noqa: B017, PT011
        query.run()
    site.kill_and_restart()
    query.points.revive()
    query.add()

    query.run()

    assert committed(query.topic) == query.written(2)

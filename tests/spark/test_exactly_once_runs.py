"""A query with `klamm.sink.semantics=exactly-once` whose tasks, commits, drivers and runs fail while others work on.

`make faults` kills drivers more often: KLAMM_SPARK_KILLS says how many times.
"""

from __future__ import annotations

import os
import random
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from tests.interop.broker_process import BrokerProcess
from tests.support.exactly_once_query import Query, committed
from tests.support.kafka_broker import ApacheKafka
from tests.support.patience import Limit
from tests.support.spark_driver import SparkDriver
from tests.support.spark_topics import Topic, create_topic
from tests.support.stopping_sink import HALF_STAGED

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.transaction_listing import TransactionsClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)

IS_MATRIX = "KLAMM_EXACTLY_ONCE_MATRIX" in os.environ
KILLS = int(os.environ.get("KLAMM_SPARK_KILLS", "1"))
FILES = 12
# The errors of a run that has lost a race: another run has fenced it, has planned or finished a micro-batch before it,
# or has written later ones.
LOST_RACE = re.compile(
    "has taken over|CONCURRENT_STREAM_LOG_UPDATE|another run of the query is ahead of this one|"
    "Multiple streaming queries are concurrently using"
)


@pytest.mark.parametrize("point", ["task begun", HALF_STAGED, "task staged"])
@pytest.mark.parametrize("end", ["dies", "raises"])
def test_a_task_that_is_repeated(spark: SparkSession, topic: Topic, tmp_path: Path, point: str, end: str) -> None:
    """The worker of a task dies, or the task raises an error, and Spark repeats the task: each row comes once, and the
    first file is removed."""
    query = Query(spark, topic, tmp_path, **{"klamm.sink.inline.bytes": "0"})
    query.add()
    query.add()
    (query.points.stop_once_at if end == "dies" else query.points.raise_once_at)(point, 1)

    query.run()

    assert query.points.was_reached
    assert committed(topic) == query.written(2)
    assert query.staged() == []


@pytest.mark.parametrize(
    ("point", "found", "landed"),
    [
        ("initialized", "its topics have nothing of it: the next start of the query sends it", 1),
        ("marker moved", "its topics have nothing of it: the next start of the query sends it", 1),
        ("committed", "its topics have it: the next start of the query does not send it again", 2),
    ],
)
def test_abort_says_whether_the_micro_batch_landed(  # noqa: PLR0917
    spark: SparkSession, topic: Topic, tmp_path: Path, point: str, found: str, landed: int
) -> None:
    """The process of the commit dies, and Spark calls `abort`, which reads the marker, ends the transaction that hangs,
    and removes the staged files."""
    query = Query(spark, topic, tmp_path, **{"klamm.sink.inline.bytes": "0"})
    query.add()
    query.add()
    query.points.stop_once_at(point, 1)
    with pytest.raises(Exception):  # noqa: B017, PT011 (Spark names a process that ended in several ways)
        query.run()

    assert query.points.was_reached
    assert f"failed; {found}" in query.points.log()
    assert query.staged() == []
    # Readers get what comes after the transaction at once, not after its timeout of a minute.
    topic.produce(["other"])
    other: Counter[bytes | None] = Counter([b"other"])
    assert committed(topic) == query.written(landed) + other
    query.run()
    assert committed(topic) == query.written(2) + other


@pytest.mark.parametrize(
    ("point", "inline_bytes"),
    [
        (point, inline_bytes)
        for point in ("decided", "first batch sent", "all acknowledged", "marker moved")
        for inline_bytes in ("1048576", "0")
        if IS_MATRIX or (point, inline_bytes) in {("decided", "0"), ("decided", "1048576"), ("marker moved", "1048576")}
    ],
)
def test_a_run_that_was_paused_is_fenced(
    spark: SparkSession, topic: Topic, tmp_path: Path, point: str, inline_bytes: str
) -> None:
    """Another run writes the micro-batch meanwhile and goes on. The paused run writes nothing, says why, and does not
    fence the other run when it gives up. This holds for staged files, too, which the other run removes."""
    # The other driver may take a minute to start on a busy machine.
    more = {"kafka.transaction.timeout.ms": "600000", "klamm.sink.inline.bytes": inline_bytes}
    query = Query(spark, topic, tmp_path, **more)
    query.add()
    query.add()
    query.points.pause_at(point, 1)
    paused = query.start()
    query.points.wait_for_pause()
    with query.driver() as other:
        assert other.wait() == 0, other.text()[-3000:]
    assert committed(topic) == query.written(2)
    query.points.revive()
    with pytest.raises(Exception, match=r"Another run of the query, or a query with a copy .* has taken over"):
        paused.awaitTermination()

    assert "another run of the query has written it" in query.points.log()
    assert committed(topic) == query.written(2)
    query.add()
    query.run()
    assert committed(topic) == query.written(3)


@pytest.mark.skipif(not IS_MATRIX, reason="two more drivers: make faults")
@pytest.mark.parametrize("point", ["commit begun", "initialized", "committed"])
def test_a_run_that_was_paused_where_it_can_not_write(
    spark: SparkSession, topic: Topic, tmp_path: Path, point: str
) -> None:
    """Another run writes the micro-batch, or finds it, and goes on. The paused run drops the micro-batch. Spark ends
    the paused run, because another run has written the commit log."""
    query = Query(spark, topic, tmp_path)
    query.add()
    query.add()
    query.points.pause_at(point, 1)
    paused = query.start()
    query.points.wait_for_pause()
    with query.driver() as other:
        assert other.wait() == 0, other.text()[-3000:]
    assert committed(topic) == query.written(2)
    query.points.revive()
    with pytest.raises(Exception, match="CONCURRENT_STREAM_LOG_UPDATE"):
        paused.awaitTermination()

    assert committed(topic) == query.written(2)
    query.add()
    query.run()
    assert committed(topic) == query.written(3)


@pytest.mark.skipif(not IS_MATRIX, reason="two more drivers: make faults")
def test_two_runs_at_once(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    """Two drivers run the same query from the beginning. Each row comes once, whoever writes it. At least one driver
    loses a race, and each driver that loses one ends with an error that says so."""
    query = Query(spark, topic, tmp_path)
    for _ in range(FILES):
        query.add()
    # One driver waits in a later micro-batch for the end of the other one. Otherwise the first driver may be at its end
    # before the second one begins.
    query.points.pause_at("commit begun", FILES // 2)
    with query.driver(has_points=True) as first, query.driver(has_points=True) as second:
        limit = Limit(120)
        while first.is_running and second.is_running:
            assert not limit.is_over, first.text()[-3000:] + second.text()[-3000:]
            time.sleep(0.05)
        query.points.revive()
        ends = [(driver.wait(), driver.text()) for driver in (first, second)]
    written = committed(topic)
    assert any(written == query.written(files) for files in range(FILES + 1)), ends
    assert any(status for status, _ in ends)
    for status, text in ends:
        if status == 0:
            assert written == query.written(FILES)
        else:
            assert LOST_RACE.search(text), text[-3000:]

    query.run()

    assert committed(topic) == query.written(FILES)


@pytest.fixture(scope="module")
def strict_broker(
    tmp_path_factory: pytest.TempPathFactory, is_apache_kafka: bool
) -> Iterator[BrokerProcess | ApacheKafka]:
    """A broker that ends transactions soon after their timeout, and forgets offsets after a minute."""
    settings = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        "offsets.retention.minutes": "1",
        "offsets.retention.check.interval.ms": "500",
    }
    if is_apache_kafka:
        with ApacheKafka(settings) as kafka:
            yield kafka
        return
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), settings)
    yield broker
    broker.stop()


@pytest.fixture
def strict_topic(strict_broker: BrokerProcess | ApacheKafka) -> Topic:
    """A topic there."""
    admin = AdminClient({"bootstrap.servers": strict_broker.bootstrap_servers})
    return create_topic(admin, strict_broker.bootstrap_servers, f"strict-{uuid.uuid4().hex[:12]}", 3, {})


@pytest.mark.parametrize("point", ["first batch sent", "all acknowledged", "marker moved"])
def test_a_commit_that_takes_longer_than_the_transaction_may(
    spark: SparkSession, strict_topic: Topic, tmp_path: Path, point: str
) -> None:
    """The coordinator aborts the transaction: the query fails with the setting to raise, and the next start writes the
    micro-batch."""
    query = Query(spark, strict_topic, tmp_path)
    query.add()
    query.points.pause_at(point, 0)
    # The commit must reach the point within this time, also on a busy machine.
    running = query.start(kafka_transaction_timeout_ms="10000")
    query.points.wait_for_pause()
    _wait_for_abort(strict_topic, query.group_id)
    query.points.revive()
    with pytest.raises(Exception, match=r"longer than kafka\.transaction\.timeout\.ms=10000.*raise the timeout"):
        running.awaitTermination()
    assert committed(strict_topic) == query.written(0)

    query.run()

    assert committed(strict_topic) == query.written(1)


def _wait_for_abort(topic: Topic, transactional_id: str) -> None:
    """Waits until the coordinator has aborted a transaction that is open."""
    limit = Limit(60)
    cluster = Cluster(ClientConfig.from_mapping({"bootstrap.servers": topic.bootstrap_servers}))
    with closing(TransactionsClient(cluster)) as client:
        while (found := client.describe(transactional_id)) is None or found.transaction_state != "CompleteAbort":
            assert not limit.is_over, found
            time.sleep(0.05)


@pytest.mark.skipif(not IS_MATRIX, reason="the shortest retention of offsets is a minute: make faults")
def test_a_marker_that_expired(spark: SparkSession, strict_topic: Topic, tmp_path: Path) -> None:
    """The query stops until the user says which micro-batches the topic has. This holds for the first one, too."""
    query = Query(spark, strict_topic, tmp_path)
    query.add()
    query.run()
    late = Query(spark, strict_topic, _folder(tmp_path / "late"))
    late.add()
    late.run()
    late.forget_commit(0)
    time.sleep(63)
    for each in (query, late):
        each.add()
        with pytest.raises(Exception, match=r"MarkerMissing.*expired"):
            each.run()

    query.run(klamm_sink_first_batch=query.first_batch(1))
    late.run(klamm_sink_first_batch=late.first_batch(1))

    assert committed(strict_topic) == query.written(2) + late.written(2)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.timeout(600 + 60 * KILLS)
@pytest.mark.parametrize(
    "master",
    [
        "local[2,4]",
        pytest.param(
            "local-cluster[2,1,1024]", marks=pytest.mark.skipif(not IS_MATRIX, reason="takes a minute: make faults")
        ),
    ],
)
def test_drivers_that_are_killed_at_any_time(spark: SparkSession, topic: Topic, tmp_path: Path, master: str) -> None:
    """The JVM and all its processes get a SIGKILL while micro-batches are written. Each row comes once."""
    query = Query(spark, topic, tmp_path, **{"klamm.sink.inline.bytes": "300"})
    chance = random.Random(time.time_ns())
    for number in range(KILLS):
        for _ in range(FILES):
            query.add()
        with query.driver(master) as driver:
            _wait_for_commit(query, number * FILES + chance.randrange(FILES // 2), driver)
            # A micro-batch takes about so long.
            time.sleep(chance.uniform(0, 0.4))
            driver.kill()
        written = committed(topic)
        assert max(written.values()) == 1
        assert any(written == query.written(files) for files in range(len(query.added) + 1)), "part of a micro-batch"

    with query.driver(master) as driver:
        assert driver.wait() == 0, driver.text()[-3000:]

    assert committed(topic) == query.written(KILLS * FILES)
    assert query.staged() == []


def _wait_for_commit(query: Query, batch_id: int, driver: SparkDriver) -> None:
    limit = Limit(60)
    while not (query.checkpoint / "commits" / str(batch_id)).exists():
        assert driver.is_running, driver.text()[-3000:]
        assert not limit.is_over, driver.text()[-3000:]
        time.sleep(0.01)

"""Tests `format("klamm")` in a Spark session that the user created."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.spark_topics import Topic

from klamm.spark.java import find_java

# A session without klamm's settings starts a process for each query, and Spark gives up if that process has not
# connected within ten seconds; on a busy machine its imports alone take longer. No setting of Spark 4.3 changes that
# (`createSimpleWorker`). Both tests of this file can meet it. See
# https://github.com/apache/spark/blob/master/core/src/main/scala/org/apache/spark/api/python/PythonWorkerFactory.scala
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.flaky(reruns=1, only_rerun="Python worker failed to connect back"),
]

# The script needs a separate process: the JVM of the test process already has a session that klamm created.
SCRIPT = """
import sys
from pyspark.sql import SparkSession

bootstrap_servers, topic = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").getOrCreate()
options = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic}
frame = spark.read.format("klamm").options(**options).load()
print("values", sorted(int(row[0]) for row in frame.selectExpr("string(value)").collect()))
into = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic}
spark.range(10, 15).selectExpr("string(id) value").write.format("klamm").mode("append").options(**into).save()
print("imported", [name for name in sys.modules if name.startswith("klamm")])
spark.stop()
"""

# Some queries stop after one micro-batch, before Spark plans the next one. Spark does not tell the source that the
# micro-batch is finished.
STREAMS = """
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from tests.support.spark_topics import Topic

bootstrap_servers, name, checkpoints = sys.argv[1:]
topic = Topic(name, bootstrap_servers, None)
spark = SparkSession.builder.master("local[2]").getOrCreate()


def start(group, more={}, **trigger):
    options = topic.options(startingOffsets="earliest", kafka_group_id=group) | more
    writer = spark.readStream.format("klamm").options(**options).load().writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(Path(checkpoints, group)))
    return (writer.trigger(**trigger) if trigger else writer).start()


def is_told(group):
    return topic.committed(group) == topic.ends()


def eventually(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def stop_after_one_batch(group, more={}):
    query = start(group, more, processingTime="1 hour")
    eventually(lambda: query.lastProgress is not None)
    print(group, topic.committed(group))
    query.stop()


query = start("runs")
query.processAllAvailable()
eventually(lambda: is_told("runs"))
print("runs: told")
query.stop()

stop_after_one_batch("nobody-says-where")
stop_after_one_batch("an-option-says", {"klamm.group.checkpointLocation": str(Path(checkpoints, "an-option-says"))})
eventually(lambda: is_told("an-option-says"))
print("an-option-says: told")
print("nobody-says-where", topic.committed("nobody-says-where"))
start("nobody-says-where", availableNow=True).awaitTermination()
print("nobody-says-where: told", is_told("nobody-says-where"))
print("imported", [module for module in sys.modules if module.startswith("klamm")])

import klamm.spark

klamm.spark.register(spark)
stop_after_one_batch("the-driver-says")
eventually(lambda: is_told("the-driver-says"))
print("the-driver-says: told")
spark.stop()
"""


def run(script: str, *arguments: str) -> list[str]:
    """Runs a driver in an environment that sets only Python and Java, and returns the lines that it prints."""
    machine = {
        "JAVA_HOME": str(find_java().path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",  # some machines cannot resolve their own host name
        "PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(Path(__file__).parents[2])))),
    }
    completed = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, **machine},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr[-3000:]
    return completed.stdout.splitlines()


def test_a_plain_session_reads_and_writes_a_topic(topic: Topic) -> None:
    """Spark finds the source and the sink by name, and the driver imports no klamm module."""
    topic.produce(range(10))
    assert run(SCRIPT, topic.bootstrap_servers, topic.name) == [f"values {list(range(10))}", "imported []"]
    values = [int(record.value or -1) for record in itertools.chain(*topic.records())]
    assert sorted(values) == list(range(15))


def test_a_plain_session_tells_groups(topic: Topic, tmp_path: Path) -> None:
    """A plain session commits a micro-batch to the group when the next micro-batch is planned.

    The last micro-batch is committed when the query stops, if an option names the checkpoint or the session is
    registered. Otherwise the next run commits it first.
    """
    topic.produce(range(10))
    nothing = [-1001] * 3

    assert run(STREAMS, topic.bootstrap_servers, topic.name, str(tmp_path)) == [
        "runs: told",
        f"nobody-says-where {nothing}",
        f"an-option-says {nothing}",
        "an-option-says: told",
        f"nobody-says-where {nothing}",
        "nobody-says-where: told True",
        "imported []",
        f"the-driver-says {nothing}",
        "the-driver-says: told",
    ]

"""`format("klamm")` in a session that the user made."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.support.spark_topics import Topic

from klamm.spark.java import find_java

pytestmark = pytest.mark.timeout(300)

# In a process of its own: this one's JVM has a session of klamm's already.
SCRIPT = """
import sys
from pyspark.sql import SparkSession

bootstrap_servers, topic = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").getOrCreate()
options = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic}
frame = spark.read.format("klamm").options(**options).load()
print("values", sorted(int(row[0]) for row in frame.selectExpr("string(value)").collect()))
print("imported", [name for name in sys.modules if name.startswith("klamm")])
spark.stop()
"""


def test_a_plain_session_reads_a_topic(topic: Topic) -> None:
    """Spark finds the source by its name: nothing of klamm is imported; only Python and Java are set."""
    topic.produce(range(10))
    machine = {
        "JAVA_HOME": str(find_java().path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",  # a machine's own name need not be one that it can resolve
    }

    completed = subprocess.run(
        [sys.executable, "-c", SCRIPT, topic.bootstrap_servers, topic.name],
        env={**os.environ, **machine},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )

    assert completed.stdout.splitlines() == [f"values {list(range(10))}", "imported []"], completed.stderr[-3000:]

"""Tests the output of workers when they exit."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

from tests.support.spark_topics import Topic

SCRIPT = """
    import sys

    from klamm.spark import session

    spark = session("quiet")
    reader = spark.read.format("klamm").option("kafka.bootstrap.servers", sys.argv[1])
    frame = reader.option("subscribe", sys.argv[2]).load()
    print(len(frame.limit(5).collect()), frame.limit(5).count())


    def fail(batches):
        raise ValueError("of the user's own")


    try:
        frame.mapInArrow(fail, "value binary").collect()
    except Exception as error:
        print("Traceback" in str(error))
"""


def test_a_query_with_a_limit_prints_no_traceback(topic: Topic) -> None:
    """A worker with rows that Spark no longer needs exits without a traceback; errors of user functions keep theirs."""
    topic.produce(["x" * 100] * 100_000)
    options = topic.options()
    words = [sys.executable, "-c", dedent(SCRIPT), options["kafka.bootstrap.servers"], options["subscribe"]]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["5", "5", "True"]
    assert "BrokenPipeError" not in ran.stderr

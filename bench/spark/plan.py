"""Measures how long Spark plans reads of a topic with many partitions: a batch read, and a micro-batch of a stream.

    python -m bench.spark.plan BOOTSTRAP TOPIC PARTITIONS SOURCE CONNECTOR_JARS

SOURCE is klamm or connector. For each line on its standard input the program plans a batch read and starts a query. It
prints "reading" when the query has planned its first micro-batch. At the next line it waits for the next micro-batch,
stops the query, and prints both times.

It reads no records. A batch read is planned up to its tasks, from a data frame that `load()` returned: `load()`
requests only the schema, and nothing of the topic. The query's sink ignores its rows, so that a micro-batch consists of
planning: the ends of the log (`latestOffset`), Spark's plan (`getBatch`, `queryPlanning`), the tasks (`addBatch`). A
micro-batch waits until each partition has one more record.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from bench.spark.sources import SOURCES, bench_session, print_figures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_STEPS: Final = ("latestOffset", "getBatch", "queryPlanning", "addBatch")
"""The steps of a micro-batch in Spark's progress, without the writes of its two logs."""


def _batch_seconds(spark: SparkSession, source: str, options: Mapping[str, str], partitions: int) -> float:
    records = spark.read.format(SOURCES[source]).options(**options).load()
    started = time.monotonic()
    tasks = records._jdf.queryExecution().toRdd().getNumPartitions()
    seconds = time.monotonic() - started
    assert tasks == partitions, f"{source} planned {tasks} tasks"
    return seconds


def _micro_batches(query: StreamingQuery) -> list[float]:
    """Returns the seconds of each micro-batch. Raises SystemExit with the reason if the query has failed."""
    failure = query.exception()
    if failure is not None:
        raise SystemExit(str(failure))
    durations_ms = [progress.durationMs for progress in query.recentProgress]
    return [sum(each[step] for step in _STEPS) / 1000 for each in durations_ms if "addBatch" in each]


def _ignore(rows: DataFrame, batch_id: int) -> None:
    """Ignores the rows, so that no task runs."""


def _micro_batch_seconds(spark: SparkSession, source: str, options: Mapping[str, str], partitions: int) -> float:
    waiting = {"startingOffsets": "earliest", "minOffsetsPerTrigger": str(partitions), "maxTriggerDelay": "1h"}
    records = spark.readStream.format(SOURCES[source]).options(**options, **waiting).load()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        query = records.writeStream.foreachBatch(_ignore).option("checkpointLocation", folder).start()
        while not _micro_batches(query):
            time.sleep(0.1)
        print("reading", flush=True)
        sys.stdin.readline()
        while len(planned := _micro_batches(query)) < 2:
            time.sleep(0.1)
        query.stop()
        return planned[1]


def main() -> None:
    bootstrap, topic, partitions, source, connector_jars = sys.argv[1:]
    spark = bench_session(connector_jars, fast_checkpoints=False)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    while sys.stdin.readline():
        batch = _batch_seconds(spark, source, options, int(partitions))
        micro_batch = _micro_batch_seconds(spark, source, options, int(partitions))
        print_figures({"batch": batch, "micro_batch": micro_batch})
    spark.stop()


if __name__ == "__main__":
    main()

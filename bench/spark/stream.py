"""Measures the time from a record's production to its arrival in a streaming query's sink, with and without state.

    python -m bench.spark.stream BOOTSTRAP TOPIC SOURCE STATE SECONDS CONNECTOR_JARS

SOURCE is klamm or connector, STATE on or off. For each line on its standard input the program starts the query, or
continues it from its checkpoint. It prints "reading" when the query has seen records. At the next line it measures for
SECONDS, prints the figures, and stops the query. The session, with the code that its JVM has compiled, stays for the
next query.

Without state the sink gets each record; with state it gets the newest record of each of 1,000 groups. A row's age is
computed when a task hands the row to the sink, and Spark makes a histogram of each micro-batch's ages (`observe`).
Nothing else happens to the rows, so the figures show the source and Spark. Ages are relative to the records'
timestamps, in whole milliseconds.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions

from bench.spark.sources import SOURCES, bench_session, print_figures

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

_BINS: Final = 200
"""The number of bins in the histogram of a micro-batch's ages; each bin is an age and a count."""


def _percentile(ages: Sequence[tuple[float, float]], share: float) -> float:
    """Returns a percentile of ages, each given with its count."""
    wanted = share * sum(count for _, count in ages)
    for age, count in sorted(ages):
        wanted -= count
        if wanted <= 0:
            return age
    raise SystemExit("nothing arrived")


def _batches(query: StreamingQuery) -> list[list[tuple[float, float]]]:
    """Returns the ages in each micro-batch with records. Raises SystemExit with the reason if the query has failed."""
    failure = query.exception()
    if failure is not None:
        raise SystemExit(str(failure))
    observed = [progress.observedMetrics.get("ages") for progress in query.recentProgress]
    return [[(bin_["x"], bin_["y"]) for bin_ in row.histogram] for row in observed if row and row.histogram]


def main() -> None:
    bootstrap, topic, source, state, seconds, connector_jars = sys.argv[1:]
    spark = bench_session(connector_jars, fast_checkpoints=True)
    # Spark keeps the progress of this many micro-batches.
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", 10_000)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.readStream.format(SOURCES[source]).options(**options).load()
    if state == "on":
        records = records.groupBy((functions.col("offset") % 1000).alias("group")).agg(
            functions.max("timestamp").alias("timestamp"), functions.count("*").alias("records")
        )
    age_ms = functions.expr("bigint(java_method('java.lang.System', 'currentTimeMillis')) - unix_millis(timestamp)")
    observed = records.select(age_ms.alias("age_ms")).observe(
        "ages", functions.histogram_numeric("age_ms", functions.lit(_BINS)).alias("histogram")
    )

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        while sys.stdin.readline():
            query = (
                observed.writeStream.format("noop")
                .outputMode("update" if state == "on" else "append")
                .option("checkpointLocation", folder)
                .start()
            )
            while not _batches(query):
                time.sleep(0.1)
            print("reading", flush=True)
            sys.stdin.readline()
            before = len(_batches(query))
            time.sleep(float(seconds))
            measured = _batches(query)[before:]
            ages = [age for batch in measured for age in batch]
            print_figures(
                {
                    "p50": _percentile(ages, 0.50),
                    "p95": _percentile(ages, 0.95),
                    "batches": len(measured),
                    "records": sum(count for _, count in ages),
                }
            )
            query.stop()
    spark.stop()


if __name__ == "__main__":
    main()

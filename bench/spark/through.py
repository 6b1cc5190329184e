"""Runs streaming queries that copy the records of a topic to another topic.

    python -m bench.spark.through BOOTSTRAP CONNECTOR_JARS

For each line `PATH INPUT OUTPUT` on its standard input the program starts the query with this path, or continues it
from its checkpoint, and prints "running". PATH is a pair of source and sink from `PATHS`. At the next line it stops the
query, and prints how many micro-batches it had. The session, with the code that its JVM has compiled, stays for the
next query.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.spark.sinks import SINKS, producer_options
from bench.spark.sources import SOURCES, bench_session, print_figures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["PATHS"]

PATHS: Final[Mapping[str, tuple[str, str]]] = {
    "klamm": ("klamm", "klamm"),
    "connector": ("connector", "connector"),
    "klamm_sink": ("connector", "klamm"),
    "exactly_once": ("klamm", "exactly_once"),
}
"""The path's name in the figures → its source and its sink."""


def _start(spark: SparkSession, bootstrap: str, line: str, folder: Path) -> StreamingQuery:
    path, read_topic, written_topic = line.split()
    source, sink = PATHS[path]
    read = {"kafka.bootstrap.servers": bootstrap, "subscribe": read_topic, "startingOffsets": "earliest"}
    sink_format, own = SINKS[sink]
    writer = spark.readStream.format(SOURCES[source]).options(**read).load().select("value").writeStream
    return (
        writer.format(sink_format)
        .options(**producer_options(bootstrap, written_topic, "none"), **own)
        .option("checkpointLocation", str(folder / path))
        .start()
    )


def main() -> None:
    bootstrap, connector_jars = sys.argv[1:]
    spark = bench_session(connector_jars, fast_checkpoints=True)
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", 10_000)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        while line := sys.stdin.readline():
            query = _start(spark, bootstrap, line, Path(folder))
            print("running", flush=True)
            sys.stdin.readline()
            failure = query.exception()
            if failure is not None:
                raise SystemExit(str(failure))
            batches = sum(progress.numInputRows > 0 for progress in query.recentProgress)
            query.stop()
            print_figures({"batches": batches})
    spark.stop()


if __name__ == "__main__":
    main()

"""The time from a record's production to its arrival in the sink of a streaming query, with and without state.

    python -m bench.spark.stream BOOTSTRAP TOPIC SOURCE STATE SECONDS CONNECTOR_JARS

SOURCE is klamm or connector, STATE on or off. "reading" is printed when the query has seen a first record; told to go
on, it listens for SECONDS. Without state the sink sees each record; with state it sees, of each of 1,000 groups, the
newest record. Times are those of the records' timestamps, which are whole milliseconds.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions

from bench.spark.sources import SOURCES, bench_session, print_figures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class _Sink:
    """Takes micro-batches, and how old their records were when it had them."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.ages_ms: list[np.ndarray] = []
        self.batches = 0

    def take(self, batch: DataFrame, number: int) -> None:
        table = batch.select("timestamp").toArrow()
        now_us = time.time_ns() // 1000
        if table.num_rows == 0:
            return
        sent_us = table.column(0).cast("int64").to_numpy()
        self.ages_ms.append((now_us - sent_us) / 1000)
        self.batches += 1
        self.arrived.set()


def main() -> None:
    bootstrap, topic, source, state, seconds, connector_jars = sys.argv[1:]
    spark = bench_session(connector_jars, fast_checkpoints=True)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    records = spark.readStream.format(SOURCES[source]).options(**options).load()
    if state == "on":
        records = records.groupBy((functions.col("offset") % 1000).alias("group")).agg(
            functions.max("timestamp").alias("timestamp"), functions.count("*").alias("records")
        )
    sink = _Sink()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        query = (
            records.writeStream.foreachBatch(sink.take)
            .outputMode("update" if state == "on" else "append")
            .option("checkpointLocation", folder)
            .start()
        )
        while not sink.arrived.wait(1):
            if query.exception() is not None:
                raise SystemExit(str(query.exception()))
        print("reading", flush=True)
        sys.stdin.readline()
        sink.ages_ms.clear()
        sink.batches = 0
        time.sleep(float(seconds))
        ages = np.concatenate(sink.ages_ms)
        print_figures(
            {
                "p50": float(np.percentile(ages, 50)),
                "p95": float(np.percentile(ages, 95)),
                "batches": sink.batches,
                "records": len(ages),
            }
        )
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()

"""Reads a whole topic into count() and into a groupBy, with both sources in turn. Prints each one's records a second.

python -m bench.spark.read_all BOOTSTRAP TOPIC COUNT CONNECTOR_JARS
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions

from bench.spark.sources import SOURCES, bench_session, print_figures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _count(records: DataFrame) -> int:
    return records.count()


def _group(records: DataFrame) -> int:
    groups = records.groupBy((functions.col("offset") % 1000).alias("group")).agg(
        functions.count("*").alias("records"), functions.max("timestamp")
    )
    return sum(row["records"] for row in groups.collect())


def _seconds(spark: SparkSession, source: str, options: Mapping[str, str], count: int, what: str) -> float:
    records = spark.read.format(SOURCES[source]).options(**options).load()
    started = time.monotonic()
    found = _count(records) if what == "count" else _group(records)
    seconds = time.monotonic() - started
    assert found == count, f"{source} found {found} of {count} records"
    return seconds


def main() -> None:
    bootstrap, topic, count_text, connector_jars = sys.argv[1:]
    count = int(count_text)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    spark = bench_session(connector_jars, fast_checkpoints=False)
    figures: dict[str, float] = {}
    # The first pass warms both sources up: classes, generated code, workers, the page cache.
    for measured in (False, True):
        for what in ("count", "group"):
            for source in SOURCES:
                seconds = _seconds(spark, source, options, count, what)
                if measured:
                    figures[f"{source}_{what}"] = count / seconds
    for what in ("count", "group"):
        figures[f"ratio_{what}"] = figures[f"klamm_{what}"] / figures[f"connector_{what}"]
    print_figures(figures)
    spark.stop()


if __name__ == "__main__":
    main()

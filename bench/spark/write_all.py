"""Writes rows to a topic, with one sink after the other: by batch writes, and by streaming queries.

    python -m bench.spark.write_all BOOTSTRAP COUNT SIZE CODEC CONNECTOR_JARS

The rows lie in uncompressed Parquet files, which the program writes first and each write reads again, so the cost of
the rows is small and the same for all sinks. A value has SIZE bytes: half of them the same in all rows, half random
hexadecimal digits. Rows have no key.

The program prints "ready" when the files are there. Then it writes all rows once for each line `WAY TOPIC SHARE` on
its standard input, and prints the seconds. WAY is a key of `WAYS`. SHARE is `all`, or `some` for a quarter of the rows.

A sink writes exactly once in streaming queries only, so at least once is measured in such a query, too. A query reads
two of the eight files in each micro-batch, and ends after the last one (`availableNow`).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions

from bench.spark.sinks import SINKS, producer_options
from bench.spark.sources import bench_session, print_figures

__all__ = ["FILES", "FILES_OF_A_BATCH", "WAYS"]

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

WAYS: Final[Mapping[str, tuple[str, bool]]] = {
    "klamm": ("klamm", False),
    "connector": ("connector", False),
    "query": ("klamm", True),
    "exactly_once": ("exactly_once", True),
}
"""The way's name in the figures → its sink, and whether a streaming query writes."""

FILES: Final = 8
FILES_OF_A_BATCH: Final = 2
_DIGITS_OF_A_HASH: Final = 128
_SCHEMA: Final = "value binary"


def _value(size: int) -> Column:
    """Returns `size` bytes as a column; a codec can compress them only in part."""
    digits = size // 2
    hashes = [
        functions.sha2(functions.concat_ws(" ", functions.col("id"), functions.lit(number)), 512)
        for number in range(-(-digits // _DIGITS_OF_A_HASH))
    ]
    text = functions.concat(functions.lit("x" * (size - digits)), *hashes)
    return functions.substring(text, 1, size).cast("binary").alias("value")


def _write_files(spark: SparkSession, folder: Path, count: int, size: int) -> None:
    rows = spark.range(0, count, 1, FILES).select(_value(size))
    rows.write.options(compression="none", **{"parquet.enable.dictionary": "false"}).parquet(str(folder))
    assert len(list(folder.glob("part-*"))) == FILES


def _write_batch(spark: SparkSession, files: str, sink: str, options: Mapping[str, str]) -> None:
    rows = spark.read.schema(_SCHEMA).parquet(files)
    rows.write.format(SINKS[sink][0]).mode("append").options(**options).save()


def _run_query(spark: SparkSession, files: str, sink: str, options: Mapping[str, str]) -> None:
    rows = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", FILES_OF_A_BATCH).parquet(files)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        writer = rows.writeStream.format(SINKS[sink][0]).options(**options)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()


def main() -> None:
    bootstrap, count, size, codec, connector_jars = sys.argv[1:]
    spark = bench_session(connector_jars, fast_checkpoints=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        rows = Path(folder, "rows")
        _write_files(spark, rows, int(count), int(size))
        print("ready", flush=True)
        while line := sys.stdin.readline():
            way, topic, share = line.split()
            sink, is_query = WAYS[way]
            options = {**producer_options(bootstrap, topic, codec), **SINKS[sink][1]}
            files = str(rows / ("part-*" if share == "all" else f"part-0000[0-{FILES_OF_A_BATCH - 1}]*"))
            started = time.monotonic()
            (_run_query if is_query else _write_batch)(spark, files, sink, options)
            print_figures({"seconds": time.monotonic() - started})
    spark.stop()


if __name__ == "__main__":
    main()

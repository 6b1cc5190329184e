"""The Spark query: delays per airport and day, from the topic to Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["read_result", "start_query"]

# At a year in 30 seconds two weeks are 1.2 seconds: so late a record may come and still be counted.
WATERMARK: Final = "14 days"
SCHEMA: Final = "time timestamp, dest string, arr_delay int"


def start_query(spark: SparkSession, bootstrap_servers: str, topic: str, group: str, directory: Path) -> StreamingQuery:
    """Starts the query; it reads as the group `group`, writes `directory/delays`, keeps its checkpoint next to it."""
    from pyspark.sql import functions as f

    records = (
        spark.readStream.format("klamm")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("kafka.group.id", group)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    flights = records.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("flight")).select("flight.*")
    delays = (
        flights.withWatermark("time", WATERMARK)
        # Cancelled flights and the closing event are not filtered here: Spark would move that below the watermark,
        # which then would not see the closing event. A null delay counts for nothing, and the closing event's own
        # window never closes.
        .groupBy(f.window("time", "1 day"), "dest")
        .agg(f.count("arr_delay").alias("flights"), f.sum("arr_delay").alias("delay_minutes"))
        .where("flights > 0")
        .select(
            f.col("dest").alias("airport"),
            f.date_format(f.col("window.start"), "yyyy-MM-dd").alias("day"),
            "flights",
            "delay_minutes",
        )
    )
    return (
        delays.writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(directory / "delays"))
        .option("checkpointLocation", str(directory / "checkpoint"))
        .queryName("delays")
        .start()
    )


def read_result(spark: SparkSession, directory: Path) -> pandas.DataFrame:
    """What the query has written, as Spark reads it: only the files that its commit log knows."""
    return spark.read.parquet(str(directory / "delays")).toPandas()

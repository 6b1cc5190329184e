"""The Spark query: delays per airport and day, from the topic of flights to the topic of delays; and its reader."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, KafkaException

from klamm import KlammError

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["read_delays", "start_query"]

# At a year in 30 seconds two weeks are 1.2 seconds: so late a record may come and still be counted.
WATERMARK: Final = "14 days"
SCHEMA: Final = "time timestamp, dest string, arr_delay int"
PATIENCE_S: Final = 60.0


def start_query(
    spark: SparkSession, bootstrap_servers: str, *, flights_topic: str, delays_topic: str, group: str, directory: Path
) -> StreamingQuery:
    """Starts the query; it reads `flights_topic` as the group `group`, and writes the delays of each airport and day to
    `delays_topic`, exactly once and with the airport as key. Its checkpoint is in `directory`."""
    from pyspark.sql import functions as f

    records = (
        spark.readStream.format("klamm")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("kafka.group.id", group)
        .option("subscribe", flights_topic)
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
    rows = delays.select(f.col("airport").alias("key"), f.to_json(f.struct("*")).alias("value"))
    return (
        rows.writeStream.format("klamm")
        .outputMode("append")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("topic", delays_topic)
        .option("klamm.sink.semantics", "exactly-once")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .queryName("delays")
        .start()
    )


def read_delays(bootstrap_servers: str, topic: str, group: str, partitions: int) -> pandas.DataFrame:
    """Reads the topic to its end as a member of `group`, and commits that.

    Raises KlammError when that takes too long or the topic can't be read.
    """
    import pandas

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "log_level": 0,
            "group.id": group,
            "group.protocol": "consumer",  # KIP-848: the first member does not wait for others
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    rows = []
    at_end: set[int | None] = set()
    deadline_s = time.monotonic() + PATIENCE_S
    try:
        while len(at_end) < partitions:
            if time.monotonic() > deadline_s:
                raise KlammError(f"the topic {topic} was not read to its end")
            for message in consumer.consume(num_messages=5000, timeout=0.2):
                error, value = message.error(), message.value()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(message.partition())
                elif error is not None:
                    raise KlammError(f"the topic {topic} can't be read: {error.str()}")
                elif value is not None:
                    rows.append(json.loads(value))
        if rows:
            consumer.commit(asynchronous=False)
    except KafkaException as error:
        raise KlammError(f"the topic {topic} can't be read: {error}") from error
    finally:
        consumer.close()
    return pandas.DataFrame(rows, columns=["airport", "day", "flights", "delay_minutes"])

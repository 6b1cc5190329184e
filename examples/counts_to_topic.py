"""The number of events of each user and hour, from a topic into another topic, exactly once.

    klamm pipeline run examples/counts_to_topic.py -b localhost:9092

An event is an object such as {"at": "2026-03-01T10:00:00Z", "user": "ann"}. The watermark says how late an event may
come: when an event of 11:10 has arrived, the counts of 10:00 to 11:00 are complete and are written. Later events of
that hour are dropped.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from klamm.pipelines import Pipeline, json, to_topic, topic

pipeline = Pipeline("activity", conf={"spark.sql.shuffle.partitions": 4})


@pipeline.flow(
    source=topic("events", decode=json("at timestamp NOT NULL, user string NOT NULL")),
    sink=to_topic("events-by-hour", key="user"),
)
def by_hour(events: DataFrame) -> DataFrame:
    """Counts the events of each user in each hour."""
    hours = events.withWatermark("at", "10 minutes").groupBy("user", F.window("at", "1 hour").alias("hour"))
    return hours.count().select("user", F.col("hour.start").alias("hour"), "count")

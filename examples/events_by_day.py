"""JSON events of a topic as Parquet files, in a folder for each day.

    klamm pipeline run examples/events_by_day.py -b localhost:9092

An event is an object such as {"at": "2026-03-01T10:00:00Z", "user": "ann", "action": "login", "ms": 12}. The files have
each event once. Events that do not fit go to the topic `events.by_day.dead-letters`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from klamm.pipelines import Pipeline, json, to_files, topic

pipeline = Pipeline("events")


@pipeline.flow(
    source=topic("events", decode=json("at timestamp NOT NULL, user string NOT NULL, action string, ms int")),
    sink=to_files("data/events", partition_by=["day"]),
    check="at > '2020-01-01' AND at < _record.timestamp + INTERVAL 1 DAY",
    # A larger micro-batch makes larger files.
    every="1 minute",
)
def by_day(events: DataFrame) -> DataFrame:
    """Adds the day, and where each event comes from."""
    return events.selectExpr(
        "*", "_record.partition AS kafka_partition", "_record.offset AS kafka_offset", "date(at) AS day"
    )

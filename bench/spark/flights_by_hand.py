"""The same as `flights_pipeline.py`, by hand on Spark's connector: a query for the flights, one for dead letters.

    python -m bench.spark.flights_by_hand BOOTSTRAP CHECKPOINTS CONNECTOR_JARS

It uses `from_json` in the mode PERMISSIVE with a column for corrupt records, as Spark's documentation describes it, and
the same check, joins and columns. The connector's sink writes at least once. BENCH_PIPELINE is that of the pipeline.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from examples.flights.pipeline import PLAUSIBLE, arrivals
from pyspark.sql import functions as f

from bench.spark.sinks import producer_options
from bench.spark.sources import bench_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COLUMNS: Final = "time timestamp, carrier string, flight int, origin string, dest string, arr_delay int"
_SCHEMA: Final = f"{_COLUMNS}, corrupt string"


def _judged(spark: SparkSession, bootstrap: str, given: dict[str, Any]) -> DataFrame:
    """Returns the records with their parsed values, and the reason of bad ones."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": given["input"], "startingOffsets": "earliest"}
    if given["max_records"] is not None:
        options["maxOffsetsPerTrigger"] = str(given["max_records"])
    records = spark.readStream.format("kafka").options(**options).load()
    parsed = f.from_json(
        f.col("value").cast("string"), _SCHEMA, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "corrupt"}
    )
    flat = records.withColumn("parsed", parsed).select("*", "parsed.*")
    reason = (
        f.when(f.col("value").isNull(), f.lit("there is no value"))
        .when(f.col("corrupt").isNotNull(), f.lit("the value does not decode"))
        .when(~f.coalesce(f.expr(PLAUSIBLE), f.lit(False)), f.lit(f"the check is not true: {PLAUSIBLE}"))
    )
    return flat.withColumn("reason", reason)


def _good(judged: DataFrame) -> DataFrame:
    rows = arrivals(judged.where("reason IS NULL").select(*(field.split()[0] for field in _COLUMNS.split(", "))))
    columns = [name for name in rows.columns if name != "dest"]
    value = f.to_json(f.struct(*columns), {"ignoreNullFields": "false"})
    return rows.select(f.col("dest").alias("key"), value.alias("value"))


def _dead_letters(judged: DataFrame) -> DataFrame:
    headers = f.array(
        *(
            f.struct(f.lit(f"klamm.{name}").alias("key"), f.col(name).cast("string").cast("binary").alias("value"))
            for name in ("reason", "topic", "partition", "offset", "timestamp")
        )
    )
    return judged.where("reason IS NOT NULL").select("key", "value", headers.alias("headers"))


def main() -> None:
    bootstrap, checkpoints, connector_jars = sys.argv[1:]
    given = json.loads(os.environ["BENCH_PIPELINE"])
    spark = bench_session(connector_jars, fast_checkpoints=True)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    written = {"good": (_good, given["output"]), "bad": (_dead_letters, f"{given['output']}.dead-letters")}
    for name, (rows, topic) in written.items():
        writer = rows(_judged(spark, bootstrap, given)).writeStream.format("kafka")
        options = {**producer_options(bootstrap, topic, "none"), "includeHeaders": "true"}
        writer.options(**options).option("checkpointLocation", f"{checkpoints}/{name}").queryName(name).start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()

"""`klamm pipeline prepare`: records the classes that Spark loads, so that later sessions start with less work."""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from klamm.errors import KlammError
from klamm.pipelines.run.error_texts import one_line
from klamm.spark.class_archive import (
    CLASS_PATH,
    JAVA_OPTIONS,
    find_archive,
    front_of_class_path,
    possible_archives,
    recording_options,
)
from klamm.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from klamm.pipelines import Pipeline

__all__ = ["run"]

_MASTER: Final = "local[2]"
_JVM_END_S: Final = 300
_RECORDS: Final = 50


def run(arguments: argparse.Namespace) -> int:
    """Records the archive, unless this machine has it. Raises KlammError if the JVM writes none."""
    from klamm.spark import require_pyspark

    require_pyspark()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        raise KlammError("klamm pipeline prepare starts a JVM of its own: call it without spark-submit")
    java = find_java()
    found = find_archive(java)
    if found is not None:
        print(f"{_told(found)} is there already")
        return 0
    places = possible_archives(java)
    archive = _place(places)
    print("runs a small pipeline on a broker of its own; this takes about a minute")
    begin = time.monotonic()
    # The JVM writes the file when it ends: under another name, so that no session finds a part of it.
    with tempfile.TemporaryDirectory(prefix=".recording-", dir=archive.parent) as folder:
        recorded = Path(folder) / "classes.jsa"
        try:
            _record(recorded, Path(folder))
        except (OSError, Py4JError, PySparkException, subprocess.TimeoutExpired) as error:
            raise KlammError(f"the small pipeline has failed: {one_line(str(error))}") from error
        if not recorded.exists():
            raise KlammError(
                f"Java {java.version} ({java.path}) wrote no archive of its classes, so Spark starts as before. That "
                "happens if Spark has a folder with configuration files on its class path (SPARK_CONF_DIR, "
                "SPARK_HOME/conf, HADOOP_CONF_DIR), or if this Java has no archive of its own classes (java "
                "-Xshare:dump makes one)"
            )
        recorded.replace(archive)
    if archive == places[0]:  # the other place has archives of other environments
        for path in archive.parent.glob("spark-classes-*.jsa"):
            if path != archive:
                path.unlink(missing_ok=True)
    print(
        f"{_told(archive)} is written after {time.monotonic() - begin:.0f} s; Spark's sessions on this machine use it"
    )
    return 0


def _told(archive: Path) -> str:
    return f"{archive} ({archive.stat().st_size / 1e6:.0f} MB)"


def _place(archives: list[Path]) -> Path:
    """Returns the first of the places that can be written to."""
    for archive in archives:
        try:
            archive.parent.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(archive.parent, os.W_OK):
            return archive
    raise KlammError(f"no archive can be written to {' or '.join(str(each.parent) for each in archives)}")


def _record(archive: Path, folder: Path) -> None:
    """Runs a pipeline that uses what most pipelines use, in a session whose JVM writes the archive when it ends."""
    from klamm import Broker
    from klamm.spark import session
    from klamm.testing.pipeline_harness import PipelineHarness

    front = front_of_class_path()
    settings: dict[str, Any] = {
        JAVA_OPTIONS: recording_options(archive),
        "spark.log.level": "OFF",
        **({CLASS_PATH: front} if front else {}),
    }
    with Broker() as broker:
        spark = session("klamm pipeline prepare", _MASTER, fast_checkpoints=bool(front), **settings)
        gateway: Any = spark.sparkContext._gateway
        try:
            running = PipelineHarness(spark, _pipeline(), broker.bootstrap_servers, folder)
            running.produce("orders", [_order(number) for number in range(_RECORDS)])
            running.produce("orders", ["a bad record"])
            running.run()
            spark.read.parquet(str(running.files("hourly"))).collect()
        finally:
            spark.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(_JVM_END_S)


def _order(number: int) -> dict[str, Any]:
    return {"time": f"2020-01-{1 + number % 28:02}T00:00:00Z", "name": f"n{number % 5}", "amount": number + 0.5}


def _pipeline() -> Pipeline:
    from pyspark.sql import functions as f

    from klamm.pipelines import Pipeline, json, to_files, to_topic, topic

    pipeline = Pipeline("prepare")
    orders = topic("orders", decode=json("time timestamp, name string, amount double"))

    @pipeline.flow(source=orders, check="amount >= 0", sink=to_topic("large", key="name"))
    def large(orders: DataFrame) -> DataFrame:
        return orders.where("amount >= 10").join(f.broadcast(_names(orders.sparkSession)), "name", "left")

    @pipeline.flow(source=orders, bad_records="drop", sink=to_files("hourly"))
    def hourly(orders: DataFrame) -> DataFrame:
        windows = orders.withWatermark("time", "1 hour").groupBy(f.window("time", "1 hour"), "name")
        sums = windows.agg(f.sum("amount").alias("amount"), f.count("*").alias("orders"))
        return sums.selectExpr("window.start AS hour", "name", "amount", "orders")

    return pipeline


def _names(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(f"n{number}", number) for number in range(5)], "name string, number int")

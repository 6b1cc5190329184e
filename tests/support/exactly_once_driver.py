"""A Spark driver in a process of its own that copies the lines of files into a topic, exactly once.

    python -m tests.support.exactly_once_driver '{"input": …, "options": …, "master": …}'

Each file is a micro-batch. The driver ends with status 0 when all files are processed. The master `two-hosts` is a
cluster in this driver's JVM, with two executors on hosts of different names: Spark starts a speculative attempt of a
task only on another host, so never in `local[…]` or `local-cluster[…]`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.support.short_lived_spark import SHORT_LIVED_JVM
from tests.support.stopping_files import read_files
from tests.support.stopping_sink import POINTS_OPTION, StoppingSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROOT: Final = Path(__file__).resolve().parents[2]
_HOSTS: Final = ("127.0.0.1", "localhost")
_MEMORY_MB: Final = 1024


def _main(given: dict[str, Any]) -> None:
    import klamm.spark

    options = given["options"]
    master = given["master"]
    if master == "two-hosts":
        master = _start_cluster(Path(given["input"]).parent / "work")
    settings = {
        **SHORT_LIVED_JVM,
        "spark.executor.extraJavaOptions": SHORT_LIVED_JVM["spark.driver.extraJavaOptions"],
        # The sink of the tests is imported there, too.
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(_ROOT)))),
        **given["settings"],
    }
    spark = klamm.spark.session("a driver", master, **settings)
    points = options.get(POINTS_OPTION)
    spark.dataSource.register(StoppingSink)
    lines = read_files(spark, Path(given["input"]), Path(points) if given["is_planned_at_points"] else None)
    _run(lines, "klamm" if points is None else "klamm-stopping", options)
    spark.stop()


def _run(lines: DataFrame, name: str, options: dict[str, str]) -> None:
    writer = lines.repartition(2).writeStream.format(name).options(**options)
    writer.trigger(availableNow=True).start().awaitTermination()


def _start_cluster(folder: Path) -> str:
    """Starts a master and its workers in the driver's JVM, as Spark's own `local-cluster` does. Returns its address."""
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setAll(list(SHORT_LIVED_JVM.items())).set("spark.ui.enabled", "false")
    SparkContext._ensure_initialized(conf=conf)
    jvm: Any = SparkContext._jvm
    gateway: Any = SparkContext._gateway
    settings = jvm.org.apache.spark.SparkConf(False)
    started = jvm.org.apache.spark.deploy.master.Master.startRpcEnvAndEndpoint(_HOSTS[0], 0, 0, settings)
    address = f"spark://{_HOSTS[0]}:{started._1().address().port()}"
    masters = gateway.new_array(jvm.String, 1)
    masters[0] = address
    for number, host in enumerate(_HOSTS):
        jvm.org.apache.spark.deploy.worker.Worker.startRpcEnvAndEndpoint(
            host,
            0,
            0,
            1,
            _MEMORY_MB,
            masters,
            str(folder),
            jvm.scala.Option.apply(number),
            settings,
            jvm.scala.Option.empty(),
        )
    return address


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))

"""`klamm.spark.session()` makes the session that docs/reference/spark-session.md tells of."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from klamm.spark.java import MINIMUM_JAVA_VERSION, find_java
from klamm.spark.session_builder import settings_for
from klamm.spark.worker_python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "spark-session.md").read_text(encoding="utf-8")
THREADS = 2
"""Of the session that all tests share, as its master says."""

# In a process of its own: this one's JVM has a session of klamm's already.
EXISTING = """
import os
import klamm.spark
from pyspark.sql import SparkSession

made = SparkSession.builder.master("local[2]").appName("mine").config("spark.sql.shuffle.partitions", 7).getOrCreate()
before, environment = dict(made.conf.getAll), dict(os.environ)
found = klamm.spark.session("klamm's", "local[1]", fast_checkpoints=True, **{"spark.sql.session.timeZone": "UTC+9"})
after = dict(found.conf.getAll)
print("the same", found is made and environment == dict(os.environ))
print("changed", {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)})
print("registered", "KLAMM_SPARK_APPLICATION_ID" in found.sparkContext.environment)
made.stop()
again = klamm.spark.session("klamm's", "local[1]")
print("made", again is not made, again.conf.get("spark.sql.shuffle.partitions"), again.conf.get("spark.app.name"))
"""


def table() -> dict[str, str]:
    """What the page says that is set, and to what."""
    section = PAGE.partition("## What it sets\n")[2].partition("\n## ")[0]
    told = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            names, value, _ = (cell.strip() for cell in line.strip("|").split(" | ", 2))
            told.update({name: value.strip("`") for name in re.findall(r"`([^`]+)`", names)})
    return told


SPARK_SETTINGS = {name: value for name, value in table().items() if name.startswith("spark.")}


@pytest.mark.parametrize("name", SPARK_SETTINGS)
def test_the_session_has_what_the_page_lists(spark: SparkSession, name: str) -> None:
    """Spark's settings, in the words of the page."""
    told = SPARK_SETTINGS[name]

    assert spark.conf.get(name) == {"as many as threads": str(THREADS)}.get(told, told)


def test_the_page_lists_what_the_session_sets() -> None:
    """All of it, with nothing added."""
    assert settings_for(f"local[{THREADS}]").keys() == SPARK_SETTINGS.keys()


def test_python_and_java_are_those_of_the_page(spark: SparkSession) -> None:
    """The rows that are no settings of Spark's but variables of the environment."""
    assert table().keys() - SPARK_SETTINGS.keys() == {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME"}
    assert os.environ["PYSPARK_PYTHON"] == worker_python()
    assert os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert os.environ["JAVA_HOME"] == str(find_java().path)
    java = spark.sparkContext._jvm.System.getProperty("java.specification.version")  # type: ignore[union-attr]
    assert int(java) >= MINIMUM_JAVA_VERSION


def test_local_checkpoints_go_through_the_file_system_of_the_page(spark: SparkSession) -> None:
    """What Hadoop makes of the setting; with klamm's own jar it is another one, in a cluster of the tests' own."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(
        jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration()
    )

    used = context.getDefaultFileSystem().getClass().getName()

    assert used == SPARK_SETTINGS["spark.hadoop.fs.AbstractFileSystem.file.impl"]


def test_a_session_that_exists_is_returned_as_it_is() -> None:
    """Whoever made it chose its settings, a cluster's number of parts among them: only `conf` is applied. One that was
    stopped does not exist."""
    machine = {"JAVA_HOME": str(find_java().path), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}

    completed = subprocess.run(
        [sys.executable, "-c", EXISTING],
        env={**os.environ, **machine},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )

    assert completed.stdout.splitlines() == [
        "the same True",
        "changed {'spark.sql.session.timeZone': 'UTC+9'}",
        "registered True",
        "made True 1 klamm's",
    ], completed.stderr[-3000:]
